"""Decorators that compile functions with numba, and the files in which compiled code is kept."""

from __future__ import annotations

import contextlib
import functools
import gc
import hashlib
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.ccallback import CFunc
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import PassManager
from numba.core.sigutils import normalize_signature

Function = TypeVar("Function", bound=Callable[..., Any])


class Compiler(CompilerBase):
    """numba's compiler without LLVM's passes over single functions, which those over the module repeat."""

    def compile_extra(self, func: Callable[..., Any]) -> Any:
        """Compile a function."""
        codegen = self.state.targetctx.codegen()
        library = codegen.create_library(func.__qualname__)
        library.enable_object_caching()
        library._optimize_functions = lambda module: setattr(module, "data_layout", codegen._data_layout)
        self.adjust(library, codegen)
        self.state.library = library
        return super().compile_extra(func)

    def adjust(self, library: Any, codegen: Any) -> None:
        """Change how the module of a function is optimized."""

    def define_pipelines(self) -> list[PassManager]:
        """Return numba's own passes."""
        return [DefaultPassBuilder.define_nopython_pipeline(self.state)]


class _VectorCompiler(Compiler):
    """Optimizes a module once, and looks for no loops to vectorize."""

    def adjust(self, library: Any, codegen: Any) -> None:
        def optimize() -> None:
            manager, builder = codegen._module_pass_manager(opt=2, loop_vectorize=False, slp_vectorize=False)
            manager.run(library._final_module, builder)

        library._optimize_final_module = optimize


def compiled(
    function: Function, fastmath: AbstractSet[str] = frozenset({"contract"}), pipeline: type[CompilerBase] = Compiler
) -> Function:
    """Compile a loop that releases the interpreter's lock, and store it on disk.

    ``"contract"`` allows fused multiply-add, which is more exact.
    """
    result: Function = numba.njit(  # type: ignore[call-overload]  # one option is missing in the annotations
        function,
        nogil=True,
        fastmath=set(fastmath),
        error_model="numpy",
        no_cfunc_wrapper=True,
        pipeline_class=pipeline,
    )
    result._cache = _Cache(function)
    result._compile_for_args = _without_garbage_collection(result._compile_for_args)
    return result


def _without_garbage_collection(compile_for_args: Callable[..., Any]) -> Callable[..., Any]:
    """Compile without looking for garbage: with all objects of PyTorch in memory, that takes a fifth of the time."""

    def compile_only(*arguments: Any, **named: Any) -> Any:
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            return compile_for_args(*arguments, **named)
        finally:
            if was_enabled:
                gc.enable()

    return compile_only


def compiled_vectors(function: Function) -> Function:
    """Compile a loop over :func:`ghrr.ops.cpu.steps.procedure`: LLVM need not find vector instructions."""
    return compiled(function, pipeline=_VectorCompiler)


def compiled_callback(signature: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function for one signature, and store it on disk; ``result.address`` is where its code is."""

    def decorate(function: Callable[..., Any]) -> Any:
        result = CFunc(function, normalize_signature(signature), locals={}, options={"error_model": "numpy"})
        result._cache = _Cache(function)
        result.compile()
        return result

    return decorate


class VariantFiles(IndexDataCacheFile):
    """Files with the compiled variants of one function, each named after what it was compiled from and for.

    numba numbers these files and keeps an index of the numbers. Two processes that compile different variants at the
    same time can then choose the same number, and later processes run the code of one variant for the other.
    A file that cannot be read or written costs time, but is no error.
    """

    def save(self, key: object, data: object) -> None:
        """Store a variant."""
        with contextlib.suppress(OSError):
            self._save_data(self._name(key), data)

    def load(self, key: object) -> Any:
        """Return a stored variant, or None."""
        try:
            return self._load_data(self._name(key))
        except Exception:  # missing or damaged
            return None

    def _name(self, key: object) -> str:
        digest = hashlib.sha256(repr((self._version, self._source_stamp, key)).encode()).hexdigest()
        name: str = self._data_name(int(digest[:32], 16))
        return name


@functools.cache
def _sources() -> tuple[object, ...]:
    """Return times and sizes of the files here: code of several of them is part of a loop."""
    return tuple((x.name, x.stat().st_mtime, x.stat().st_size) for x in sorted(Path(__file__).parent.glob("*.py")))


class _Cache(FunctionCache):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        stamp = self._impl.locator.get_source_stamp(), _sources()
        self._cache_file = VariantFiles(self.cache_path, self._impl.filename_base, stamp)
