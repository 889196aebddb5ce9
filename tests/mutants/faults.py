"""Deliberate faults in the library, each with the tests that should detect it.

A mutant replaces ``original`` by ``mutated`` in the one file of ``src`` that contains ``original``. Snippets are found
by their text, so modules can be renamed freely. When the code of a snippet changes, add its new form to ``other_forms``
and new names of test files to ``tests``: then the same list works for old and new versions of the library.
"""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    """One fault: what changes, and the test files that should fail; those that do not exist are ignored."""

    name: str
    original: str
    mutated: str
    tests: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()
    other_forms: tuple[tuple[str, str], ...] = ()  # (original, mutated) of other versions of the library


_ALGEBRA = ("tests/test_algebra.py",)
_TRITON = (("TRITON_INTERPRET", "1"),)

MUTANTS = [
    # Algebra
    Mutant("unbind: wrong side", 'left = side == "left"', 'left = side == "right"', _ALGEBRA),
    Mutant("unbind right: no adjoint", "ops.bind(x, key, adjoint_b=True)\n", "ops.bind(x, key)\n", _ALGEBRA),
    Mutant(
        "unbind_similarity: no adjoint",
        "return ops.bind_similarity(key, x, value, adjoint_a=True)",
        "return ops.bind_similarity(key, x, value)",
        _ALGEBRA,
    ),
    Mutant("exact unbind: wrong side", 'left=side == "left")', 'left=side == "right")', _ALGEBRA),
    Mutant(
        "shift: opposite direction",
        'check_integer("shift(a, steps)", "steps", steps) % a.shape[-3]',
        '-check_integer("shift(a, steps)", "steps", steps) % a.shape[-3]',
        _ALGEBRA,
    ),
    Mutant(
        "commutator: swapped operands",
        "return ops.bind(a, b) - ops.bind(b, a)",
        "return ops.bind(b, a) - ops.bind(a, b)",
        _ALGEBRA,
    ),
    Mutant(
        "commutativity: same product twice",
        "ops.similarity(ops.bind(a, b), ops.bind(b, a))",
        "ops.similarity(ops.bind(a, b), ops.bind(a, b))",
        ("tests/test_space.py",),
    ),
    Mutant(
        "normalize: small vectors stay",
        "torch.where(square > 0, square,",
        "torch.where(square > 0.5, square,",
        _ALGEBRA,
    ),
    Mutant(
        "power: no check of a singular slot",
        "if whole < 0:\n            _check_invertible(operation, a)",
        "if whole < -1:\n            _check_invertible(operation, a)",
        ("tests/test_errors.py", "tests/test_algebra.py", "tests/ops/test_power.py"),
        other_forms=(
            (
                "if integer < 0:\n            _check_invertible(operation, a)",
                "if integer < -1:\n            _check_invertible(operation, a)",
            ),
        ),
    ),
    # Operations in torch
    Mutant(
        "torch bind: transpose instead of adjoint",
        "return a.mH if wanted else a",
        "return a.mT if wanted else a",
        ("tests/ops/test_parity.py",),
        other_forms=(("return a.mH if adjoint else a", "return a.mT if adjoint else a"),),
    ),
    Mutant(
        "torch multibind: swapped factors",
        "torch.cat([product(left, right), odd_one_out], dim=-4)",
        "torch.cat([product(right, left), odd_one_out], dim=-4)",
        ("tests/ops/test_parity.py", "tests/ops/test_products.py", "tests/ops/test_cpu_products.py"),
        other_forms=(
            (
                "torch.cat([product(left, right), last_if_odd], dim=-4)",
                "torch.cat([product(right, left), last_if_odd], dim=-4)",
            ),
        ),
    ),
    Mutant(
        "torch bind_bundle: last chunk lost",
        "for start in range(0, max(1, count), step)",
        "for start in range(0, max(1, count - 1), step)",
        ("tests/ops/test_parity.py", "tests/ops/test_products.py", "tests/ops/test_cpu_products.py"),
    ),
    Mutant(
        "torch similarity: without 1/m",
        "_as_real_vectors(b)) / (m * dim)",
        "_as_real_vectors(b)) / dim",
        ("tests/ops/test_parity.py",),
    ),
    Mutant(
        "torch pairwise_similarity: 1/m twice",
        "_as_real_vectors(items).mT / (m * dim)",
        "_as_real_vectors(items).mT / (m * m * dim)",
        ("tests/ops/test_parity.py",),
    ),
    Mutant(
        "bags: index one past the end",
        "at.max() < size)",
        "at.max() <= size)",
        ("tests/ops/test_bags.py",),
        other_forms=(("array.max() < size)", "array.max() <= size)"),),
    ),
    Mutant(
        "power: no inverse for small negative exponents",
        "return product(inverse(a) if exponent < 0 else a, count)",
        "return product(a, count)",
        ("tests/test_algebra.py", "tests/ops/test_power.py"),
    ),
    Mutant(
        "gradient of power: no conjugate",
        "grad_a = inverses.mH @ (slopes.conj() * inner) @ vectors.mH",
        "grad_a = inverses.mH @ (slopes * inner) @ vectors.mH",
        ("tests/ops/test_power.py",),
    ),
    Mutant(
        "gradient of polar: wrong sign",
        "difference = w.mH @ grad - grad.mH @ w\n        p = w.mH @ x",
        "difference = w.mH @ grad + grad.mH @ w\n        p = w.mH @ x",
        ("tests/ops/test_polar.py", "tests/unitary/test_projection.py"),
    ),
    Mutant(
        "gradient of bind_similarity: without 1/m",
        "/ (c.shape[-1] * c.shape[-3])",
        "/ c.shape[-3]",
        (
            "tests/ops/test_library.py",
            "tests/ops/test_operators.py",
            "tests/ops/test_parity.py",
            "tests/ops/test_products.py",
            "tests/ops/test_cpu_products.py",
        ),
    ),
    Mutant(
        "gradient of bind: missing adjoint",
        "(a, grad, not adjoint_a, False)",
        "(a, grad, adjoint_a, False)",
        (
            "tests/ops/test_library.py",
            "tests/ops/test_operators.py",
            "tests/ops/test_parity.py",
            "tests/ops/test_products.py",
            "tests/ops/test_cpu_products.py",
        ),
    ),
    Mutant(
        "gradient of a broadcast factor: axes that are not neighbours merged",
        "neighbours = len(summed) == 1 or all(",
        "neighbours = len(summed) > 0 or all(",
        (
            "tests/ops/test_library.py",
            "tests/ops/test_operators.py",
            "tests/ops/test_products.py",
            "tests/ops/test_cpu_products.py",
        ),
        other_forms=(("are_adjacent = len(summed) == 1 or all(", "are_adjacent = len(summed) > 0 or all("),),
    ),
    Mutant(
        "dispatch: a failed backend is tried again",
        '_failed[name] = f"{type(error).__name__}: {error}"',
        "pass",
        (
            "tests/ops/test_choice.py",
            "tests/ops/test_dispatch.py",
            "tests/ops/test_backends.py",
        ),
        other_forms=(('_failures[name] = f"{type(error).__name__}: {error}"', "pass"),),
    ),
    Mutant(
        "dispatch: kernels although a gradient is needed",
        "if x.requires_grad:\n            return not torch.is_grad_enabled()",
        "if x.requires_grad:\n            return True",
        (
            "tests/ops/test_choice.py",
            "tests/ops/test_dispatch.py",
            "tests/ops/test_backends.py",
            "tests/ops/test_library.py",
            "tests/ops/test_operators.py",
            "tests/ops/test_power.py",
        ),
        other_forms=(
            (
                "if x.requires_grad:\n            return not _is_grad_enabled()",
                "if x.requires_grad:\n            return True",
            ),
        ),
    ),
    # Kernels for the CPU
    Mutant(
        "numba multibind: swapped factors",
        "_multiply(product, to, item, to, count, slot, step, slot)",
        "_multiply(product, to, to, item, count, slot, slot, step)",
        ("tests/ops/test_parity.py", "tests/ops/test_products.py", "tests/ops/test_cpu_products.py"),
    ),
    Mutant(
        "numba bind_bags: last pair of a bag lost",
        "range(group, min(bags[row + 1], group + _GROUP))",
        "range(group, min(bags[row + 1] - 1, group + _GROUP))",
        ("tests/ops/test_bags.py",),
    ),
    Mutant(
        "numba products: left conjugate lost",
        "turn = -1.0 if adjoint_a else 1.0",
        "turn = 1.0",
        ("tests/ops/test_parity.py",),
        other_forms=(("sign = -1.0 if adjoint_a else 1.0", "sign = 1.0"),),
    ),
    Mutant(
        "numba similarity: without 1/m",
        "places = row, 1 / (m * dim), kind",
        "places = row, 1 / dim, kind",
        ("tests/ops/test_flat_loops.py", "tests/ops/test_flat_kernels.py", "tests/ops/test_parity.py"),
        other_forms=(("arguments = size, 1 / (m * dim), _EMPTY_REALS", "arguments = size, 1 / dim, _EMPTY_REALS"),),
    ),
    Mutant(
        "numba bind_similarity: without 1/m",
        "torch.from_numpy(sums / (m * dim))",
        "torch.from_numpy(sums / dim)",
        ("tests/ops/test_parity.py", "tests/ops/test_products.py", "tests/ops/test_cpu_products.py"),
    ),
    Mutant(
        "memory layout: lazy adjoint forgotten",
        "return x.mH, not adjoint",
        "return x.mH, adjoint",
        ("tests/ops/test_parity.py", "tests/ops/test_products.py", "tests/ops/test_cpu_products.py"),
    ),
    Mutant(
        "memory layout: broadcast axis read with its stride",
        "[0 if size == 1 else step for size, step",
        "[step for size, step",
        ("tests/ops/test_parity.py", "tests/ops/test_products.py", "tests/ops/test_cpu_products.py"),
        other_forms=(("[0 if size == 1 else stride for size, stride", "[stride for size, stride"),),
    ),
    Mutant(
        "numba unitary power: tolerance ignored",
        "if any(unknown):\n        return None\n    out = _empty((*batch",
        "if False:\n        return None\n    out = _empty((*batch",
        ("tests/ops/test_power.py", "tests/ops/test_polar.py"),
        other_forms=(
            ("    if _off_identity(m, g, tolerance):", "    if _off_identity(m, g, 1e30):"),
            ("if not_unitary:\n                continue", "if False:\n                continue"),
            ("return None if any(failed) else out\n\n\ndef haar(", "return out\n\n\ndef haar("),
        ),
    ),
    # Kernels for a GPU, under triton's interpreter
    Mutant(
        "triton bind: row of an adjoint read as a column",
        "a += _place(slot, sizes, a_steps, UNIT) + row * (1 if ADJOINT_A else M)",
        "a += _place(slot, sizes, a_steps, UNIT) + row * M",
        ("tests/ops/test_triton.py",),
        _TRITON,
        other_forms=(
            (
                "a += _offset(slot, sizes, a_steps, UNIT) + row * (1 if ADJOINT_A else M)",
                "a += _offset(slot, sizes, a_steps, UNIT) + row * M",
            ),
        ),
    ),
    Mutant(
        "triton bind_bundle: last item of a group lost",
        "tl.minimum(group + GROUP, last)",
        "tl.minimum(group + GROUP, last - 1)",
        ("tests/ops/test_triton.py",),
        _TRITON,
    ),
    # Unitary matrices
    Mutant(
        # Not conjugated phases: LAPACK returns real diagonals, so that nothing would change.
        "orthonormalize: signs of the diagonal ignored",
        "result: Tensor = q * phases[..., None, :]",
        "result: Tensor = q",
        ("tests/unitary/test_sampling.py", "tests/unitary/test_projection.py"),
    ),
    Mutant(
        "exp_hermitian: transpose instead of adjoint",
        "hermitian = (x + x.mH) / 2",
        "hermitian = (x + x.mT) / 2",
        ("tests/unitary/test_sampling.py", "tests/unitary/test_diagonal.py"),
    ),
    Mutant(
        "diagonality: angles that do not cancel",
        "u[..., pair] + 1 / 2]",
        "u[..., pair] + 1 / 3]",
        ("tests/unitary/test_diagonal.py",),
    ),
    Mutant(
        "Haar sampling: half of the phase",
        "add_(turns, alpha=2 * math.pi)",
        "add_(turns, alpha=math.pi)",
        ("tests/unitary/test_sampling.py", "tests/unitary/test_sampling_backends.py"),
        other_forms=(
            (
                "phases = torch.polar(torch.ones_like(u), 2 * math.pi * u)",
                "phases = torch.polar(torch.ones_like(u), math.pi * u)",
            ),
        ),
    ),
    Mutant(
        "polish: wrong Newton-Schulz coefficient",
        "correction = 1.5 * eye - 0.5 * gram",
        "correction = 1.5 * eye - 0.4 * gram",
        ("tests/ops/test_power.py", "tests/ops/test_polar.py"),
        other_forms=(("after = bind(after, 1.5 * eye - 0.5 * bind(", "after = bind(after, 1.5 * eye - 0.4 * bind("),),
    ),
    # Space and capacity
    Mutant(
        "crosstalk_std: one rotation instead of two",
        "self._std(self.m * g(g(weight, self.m), self.m))",
        "self._std(self.m * g(weight, self.m))",
        ("tests/test_space.py", "tests/test_capacity.py"),
        other_forms=(
            (
                "relative_weight(relative_weight(weight, space.m), space.m))",
                "relative_weight(weight, space.m))  # mutated",
            ),
        ),
    ),
    Mutant(
        "noise_std: real phases not recognised",
        "(1 if real else 2)) / self.m",
        "2) / self.m",
        ("tests/test_space.py", "tests/test_capacity.py"),
        other_forms=(("(1 if is_real else 2)) / space.m", "2) / space.m"),),
    ),
    Mutant(
        "capacity: one too many",
        "self._recall_error(n, candidates) > error) - 1",
        "self._recall_error(n, candidates) > error)",
        ("tests/test_space.py", "tests/test_capacity.py"),
    ),
    Mutant(
        "Space equality: seed ignored",
        "self.diagonality, self.phases, self.seed, self.dtype)",
        "self.diagonality, self.phases, self.dtype)",
        ("tests/test_space.py",),
        other_forms=(
            (
                "self.diagonality, self.phases, self.seed, self.dtype, self.atom_version)",
                "self.diagonality, self.phases, self.dtype, self.atom_version)",
            ),
        ),
    ),
    Mutant(
        "atoms: namespace ignored",
        "labels = (what, namespace) if namespace else (what,)",
        "labels = (what,)",
        ("tests/test_space.py",),
        other_forms=(("labels = (part, namespace) if namespace else (part,)", "labels = (part,)"),),
    ),
    Mutant(
        "capacity theory: m instead of m - 1",
        "((1 - p) ** 2 / (m - 1) if m > 1 else 0.0)",
        "((1 - p) ** 2 / m if m > 1 else 0.0)",
        ("tests/test_capacity.py", "tests/test_space.py"),
    ),
    Mutant(
        "recall error: crosstalk of n instead of n - 1 pairs",
        "sigma = math.sqrt(items - 1) * crosstalk",
        "sigma = math.sqrt(items) * crosstalk",
        ("tests/test_capacity.py", "tests/test_space.py"),
    ),
    # Encoding
    Mutant(
        "kernel weights: no conjugate",
        "relative = (second.conj() * first).sum(dim=-2)  # the diagonal",
        "relative = (second * first).sum(dim=-2)  # the diagonal",
        ("tests/encoding/test_fractional_power.py", "tests/encoding/test_kernels.py"),
    ),
    Mutant(
        "decode a number: no conjugate",
        "(self.rotation.detach().conj() * rows)",
        "(self.rotation.detach() * rows)",
        ("tests/encoding/test_decoding.py",),
    ),
    Mutant(
        "n-grams: shifts in opposite order",
        "slots = [(self.n - 1 - factor) * step for factor",
        "slots = [factor * step for factor",
        ("tests/encoding/test_sequences.py",),
    ),
    Mutant(
        "bags of shifted values: wrong slot comes in",
        "values[value_rows, -1:]",
        "values[value_rows, :1]",
        ("tests/encoding/test_sequences.py",),
        other_forms=(("values[value_indices, -1:]", "values[value_indices, :1]"),),
    ),
    Mutant(
        "modalities: weight instead of its root",
        "bind(key, math.sqrt(a) * self.encoders[name](inputs[name]))",
        "bind(key, a * self.encoders[name](inputs[name]))",
        ("tests/encoding/test_multimodal.py",),
    ),
    Mutant(
        "frequencies: multiplied by the bandwidth",
        "(drawn / self.bandwidth[:, None, :])",
        "(drawn * self.bandwidth[:, None, :])",
        ("tests/encoding/test_kernels.py", "tests/encoding/test_fractional_power.py"),
    ),
    # Memory
    Mutant(
        "match: two values under one key not considered",
        "terms += [runner_up, terms[1] + runner_up - math.log(candidates)]",
        "terms += [runner_up]",
        ("tests/memory/test_match.py",),
    ),
    Mutant(
        "match: remaining candidates counted once",
        "terms.append(math.log(candidates - 2) + below)",
        "terms.append(below)",
        ("tests/memory/test_match.py",),
    ),
    Mutant(
        "match: noise of bound and unbound items swapped",
        "other = space.crosstalk_std if bound else space.noise_std",
        "other = space.noise_std if bound else space.crosstalk_std",
        ("tests/memory/test_match.py", "tests/structures/test_sets_and_ngrams.py"),
    ),
    Mutant(
        "match: expected score is the larger energy",
        "return torch.minimum(energy.double(), candidate_energy.double())",
        "return torch.maximum(energy.double(), candidate_energy.double())",
        ("tests/memory/test_match.py", "tests/memory/test_search_by_example.py"),
    ),
    Mutant(
        "item memory: scores without 1/m",
        "products / (self.space.m * self.space.dim)",
        "products / self.space.dim",
        ("tests/memory/test_item_memory.py",),
    ),
    Mutant(
        "item memory: state not updated after a failed removal",
        "self._state = after  # the items are removed, whatever came afterwards",
        "pass",
        (
            "tests/memory/test_milvus.py",
            "tests/memory/test_faults.py",
            "tests/memory/test_kills_and_concurrent_readers.py",
        ),
        other_forms=(("self._state = after  # the error came after the items were removed", "pass"),),
    ),
    Mutant(
        "search: equal scores in any order",
        "wanted = k - (rows > last)",
        "wanted = k + 1 - (rows > last)",
        ("tests/memory/test_backends.py", "tests/memory/test_item_memory.py"),
    ),
    Mutant(
        "int8 storage: scale off by one",
        "scales = rows.abs().amax(dim=1).float() / 127",
        "scales = rows.abs().amax(dim=1).float() / 128",
        ("tests/memory/test_storage.py", "tests/memory/test_item_memory.py"),
    ),
    Mutant(
        "item file: header checksum skipped",
        "if small.hexdigest() != self.checksum:",
        "if False:",
        (
            "tests/memory/test_disk.py",
            "tests/memory/test_item_files.py",
            "tests/test_container.py",
            "tests/memory/test_faults.py",
            "tests/memory/test_kills_and_concurrent_readers.py",
        ),
        other_forms=(
            ('if self.checksum != _checksum(metadata["ghrr"], metadata["digests"], self._table):', "if False:"),
        ),
    ),
    Mutant(
        "item file: checksum of the items skipped",
        "if digest.hexdigest() != self._items_checksum:",
        "if False:",
        (
            "tests/memory/test_disk.py",
            "tests/memory/test_item_files.py",
            "tests/test_container.py",
            "tests/memory/test_faults.py",
            "tests/memory/test_kills_and_concurrent_readers.py",
        ),
        other_forms=(("if digest.hexdigest() != self._digests[name]:", "if False:"),),
    ),
    Mutant(
        "commit: removed ids of a rewritten file kept",
        "frozenset(number for number in removed if number < first)",
        "frozenset(removed)",
        (
            "tests/memory/test_disk.py",
            "tests/memory/test_item_files.py",
            "tests/test_container.py",
            "tests/memory/test_faults.py",
            "tests/memory/test_kills_and_concurrent_readers.py",
        ),
    ),
    Mutant(
        "commit: folder of another memory overwritten",
        "if (found or Manifest()) != known.manifest:",
        "if False:",
        (
            "tests/memory/test_disk.py",
            "tests/memory/test_item_files.py",
            "tests/test_container.py",
            "tests/memory/test_faults.py",
            "tests/memory/test_kills_and_concurrent_readers.py",
        ),
        other_forms=(("if (found or Manifest()) != last.manifest:", "if False:"),),
    ),
    Mutant(
        "resonator: estimates removed on the wrong side",
        "y = left if rest is None else ops.bind(left, rest, adjoint_b=True)",
        "y = left if rest is None else ops.bind(rest, left, adjoint_a=True)",
        (
            "tests/memory/test_resonator.py",
            "tests/memory/test_factorization.py",
        ),
        other_forms=(
            (
                "y = ops.bind(rest, products_after.pop(), adjoint_b=True) if products_after else rest",
                "y = ops.bind(products_after.pop(), rest, adjoint_a=True) if products_after else rest",
            ),
        ),
    ),
    # Structures
    Mutant(
        "hash table: value unbound on the wrong side",
        'unbind(x, self._shift(vector, 1), side="right")',
        'unbind(x, self._shift(vector, 1), side="left")',
        ("tests/structures/test_hash_table.py",),
    ),
    Mutant(
        "hash table: old value kept",
        "x = x - self.encode({name: match.guess}) if match.confident else x",
        "x = x",
        ("tests/structures/test_hash_table.py",),
    ),
    Mutant(
        "stack: top not subtracted",
        "unbind(x - self.names.encode([top.guess])[0], self.step",
        "unbind(x, self.step",
        ("tests/structures/test_stack.py",),
        other_forms=(("unbind(x - self.names.encode([top.guess])[0], self._below", "unbind(x, self._below"),),
    ),
    Mutant(
        "graph: predecessors on the wrong side",
        'unbind(x, end, side="right")[None]',
        'unbind(x, end, side="left")[None]',
        ("tests/structures/test_graph.py",),
    ),
    Mutant(
        "graph: labels not shifted back for m = 1",
        'self._shift(last, 2), side="right"), -1)',
        'self._shift(last, 2), side="right"), 0)',
        ("tests/structures/test_graph.py",),
    ),
    Mutant(
        "sequence: pop subtracts at the next index",
        "x - self._bound(length - 1, last.guess)",
        "x - self._bound(length, last.guess)",
        ("tests/structures/test_sequences.py",),
    ),
    Mutant(
        "chain: element not subtracted",
        'unbind(x - element, element, side="left"), -1)',
        'unbind(x, element, side="left"), -1)',
        ("tests/structures/test_sequences.py",),
        other_forms=(('unbind(rest - element, element, side="left"), -1)', 'unbind(rest, element, side="left"), -1)'),),
    ),
    Mutant(
        "tree: certain nodes not subtracted",
        "x = x - self._bound(list(certain), [match.guess for match in certain.values()])",
        "pass",
        ("tests/structures/test_tree.py",),
        other_forms=(("lambda rest, new: rest - self._bundle(_guesses(new))", "lambda rest, new: rest"),),
    ),
    Mutant(
        "automaton: accepts only if all states are final",
        "any(match.guess in ends for match in reached)",
        "all(match.guess in ends for match in reached)",
        ("tests/structures/test_automaton.py",),
    ),
    Mutant(
        "set: removes a member that is there too few times",
        "if there < times:",
        "if there + 1 < times:",
        ("tests/structures/test_sets_and_ngrams.py",),
        other_forms=(("if present < times:", "if present + 1 < times:"),),
    ),
    Mutant(
        "record: certain values added instead of subtracted",
        "result.residual = result.residual - bind_items(",
        "result.residual = result.residual + bind_items(",
        ("tests/structures/test_record.py",),
        other_forms=(("return rest - encode_items(tables,", "return rest + encode_items(tables,"),),
    ),
    Mutant(
        "record: values not shifted for m = 1",
        "return shift(total, keys.depth) if keys.depth else total",
        "return total",
        ("tests/structures/test_record.py", "tests/structures/test_record_settings.py"),
        other_forms=(("return shift(part, depth) if depth else part", "return part"),),
    ),
    Mutant(
        "record: noise of decorrelated keys ignored",
        "noise = keys[path].noise(answer_noise(book.space, energy[row]))",
        "noise = answer_noise(book.space, energy[row])",
        (
            "tests/structures/test_record_orders.py",
            "tests/structures/test_orders.py",
            "tests/structures/test_record_permuted_paths.py",
            "tests/structures/test_permuted_paths.py",
        ),
        other_forms=(
            (
                "noise = keys[path].noise(answer_noise(tables.space, energy[row]))",
                "noise = answer_noise(tables.space, energy[row])",
            ),
        ),
    ),
    Mutant(
        "record: True and 1 are the same number",
        "return isinstance(value, (int, float)) and not isinstance(value, bool)",
        "return isinstance(value, (int, float))",
        ("tests/structures/test_record_input.py", "tests/structures/test_record.py"),
        other_forms=(("if value is None or isinstance(value, bool):", "if value is None:"),),
    ),
    # Files
    Mutant(
        "file: checksum skipped",
        'if _checksum(text, tensors) != metadata.get("sha256"):',
        "if False:",
        (
            "tests/test_files.py",
            "tests/test_container.py",
            "tests/faults/test_malformed_files.py",
            "tests/faults/test_reading.py",
        ),
        other_forms=(("if hashlib.sha256(_bytes_of(tensor)).hexdigest() != digests[name]:", "if False:"),),
    ),
    Mutant(
        "file: version not checked",
        'if header.get("version") != version:',
        "if False:",
        (
            "tests/test_files.py",
            "tests/test_container.py",
            "tests/faults/test_malformed_files.py",
            "tests/faults/test_reading.py",
        ),
        other_forms=(
            ('if type(header.get("version")) is not int or not 1 <= header["version"] <= version:', "if False:"),
        ),
    ),
    Mutant(
        "atomic write: old permissions lost",
        "mode = stat.S_IMODE(temporary.stat().st_mode) if mode is None else mode",
        "mode = stat.S_IMODE(temporary.stat().st_mode)",
        ("tests/test_files.py", "tests/faults/test_atomic_writes.py", "tests/faults/test_writing.py"),
    ),
    Mutant(
        "atomic write: temporary folder left behind",
        "finally:\n            _remove_temporary(folder)",
        "finally:\n            pass",
        ("tests/test_files.py", "tests/faults/test_atomic_writes.py", "tests/faults/test_writing.py"),
    ),
    # Attention
    Mutant(
        "causal mask: fewer queries than keys",
        "seen = seen.tril(keys - queries)",
        "seen = seen.tril()",
        ("tests/nn/test_causality.py", "tests/nn/test_attention.py"),
    ),
    Mutant(
        "attention: torch's own scale",
        "is_causal=is_causal,\n        scale=1.0 if scale is None else scale,",
        "is_causal=is_causal,\n        scale=scale,",
        ("tests/nn/test_functional.py",),
    ),
    Mutant(
        "attention rows: wrong sign of a complex product",
        "torch.cat((ar * br - ai * bi, ar * bi + ai * br), dim=-1)",
        "torch.cat((ar * br + ai * bi, ar * bi + ai * br), dim=-1)",
        ("tests/nn/test_rows.py", "tests/nn/test_forms.py"),
    ),
    Mutant(
        "attention cache: positions start at 0 again",
        "self.table[:, start : start + n]",
        "self.table[:, :n]",
        ("tests/nn/test_causality.py", "tests/nn/test_attention.py"),
    ),
    Mutant(
        "attention cache: new keys before old ones",
        "if cache.keys is not None and cache.values is not None:\n        k, v = torch.cat((cache.keys, k), dim=-2)",
        "if cache.keys is not None and cache.values is not None:\n        k, v = torch.cat((k, cache.keys), dim=-2)",
        ("tests/nn/test_causality.py", "tests/nn/test_attention.py"),
        other_forms=(("k, v = torch.cat((self.keys, k), dim=-2)", "k, v = torch.cat((k, self.keys), dim=-2)"),),
    ),
    Mutant(
        "attention: dropout in evaluation",
        "dropout_p=self.dropout if self.training else 0.0,",
        "dropout_p=self.dropout,",
        ("tests/nn/test_attention.py", "tests/nn/test_modules.py"),
    ),
    Mutant(
        "causal bundles: one token too many",
        "device=p.device).tril()[start:]",
        "device=p.device).tril(1)[start:]",
        ("tests/nn/test_causality.py",),
    ),
    # Language models
    Mutant(
        "resume: optimiser not restored",
        "restore_optimizer(self.optimizer, tensors)\n        except",
        "pass\n        except",
        ("tests/lab/lm/test_resume.py",),
    ),
    Mutant(
        "resume: same random numbers at each step",
        "torch.manual_seed(_step_seed(self.config.seed, self.workers.rank, self.done))",
        "pass",
        ("tests/lab/lm/test_resume.py",),
        other_forms=(("torch.manual_seed(_step_seed(self.config.seed, self.workers.rank, self.steps_done))", "pass"),),
    ),
    Mutant(
        "training: targets are the inputs",
        "targets = self.data[start + 1 : start + 1 + count",
        "targets = self.data[start : start + count",
        (
            "tests/lab/lm/test_train.py",
            "tests/lab/lm/test_training.py",
        ),
        other_forms=(
            (
                "targets = tokens[start + 1 : end + 1].view(count, context)[order]",
                "targets = tokens[start:end].view(count, context)[order]",
            ),
        ),
    ),
    Mutant(
        "evaluation: first window not scored in full",
        "targets[1:, : context - stride] = -1",
        "targets[:, : context - stride] = -1",
        (
            "tests/lab/lm/test_evaluate.py",
            "tests/lab/lm/test_evaluation.py",
        ),
    ),
    Mutant(
        "evaluation: training mode not restored",
        "finally:\n        model.train(training)\n    return Score",
        "finally:\n        pass\n    return Score",
        (
            "tests/lab/lm/test_evaluate.py",
            "tests/lab/lm/test_evaluation.py",
        ),
    ),
    Mutant(
        "checkpoint: checksum skipped",
        'if metadata.get("sha256") != _checksum(text, tensors):',
        "if False:",
        ("tests/lab/lm/test_checkpoint.py",),
        other_forms=(("if hashlib.sha256(_bytes_of(tensor)).hexdigest() != digests[name]:", "if False:"),),
    ),
    Mutant(
        "training: last weights kept as the best",
        "if valid < self.best_valid:",
        "if True:",
        (
            "tests/lab/lm/test_train.py",
            "tests/lab/lm/test_training.py",
        ),
    ),
    # Paper and command line
    Mutant(
        "journal: damaged lines counted as trials",
        'if line[:8] != f"{zlib.crc32(line[9:-1]):08x}".encode():',
        "if False:",
        ("tests/lab/paper/test_journal.py",),
    ),
    Mutant(
        "journal: results of other settings reused",
        'return "belongs to other settings"',
        'return ""',
        ("tests/lab/paper/test_journal.py", "tests/lab/paper/test_run.py", "tests/lab/paper/test_runner.py"),
        other_forms=(('return "was computed with other settings"', 'return ""'),),
    ),
    Mutant(
        "command line: control characters printed",
        "return Text(unsafe.sub(_visible, str(value)), style=style)",
        "return Text(str(value), style=style)",
        ("tests/cli/test_cli.py",),
        other_forms=(
            ("return Text(unsafe.sub(_escape, str(value)), style=style)", "return Text(str(value), style=style)"),
        ),
    ),
    Mutant(
        "command line: infinity in JSON",
        "if found.error is not None and not math.isfinite(found.error):",
        "if False:",
        ("tests/cli/test_records.py",),
    ),
]
