"""Connection to Milvus: every request has a timeout and fails with a ConnectionError that contains no password."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote

from ghrr.checks import check_real, named, type_error, value_error
from ghrr.memory.backends.protocol import import_extra

CONNECT_SECONDS = 10.0  # a running server accepts connections much faster
FLAT = {"index_type": "FLAT"}  # exact
HNSW = {"index_type": "HNSW", "params": {"M": 32, "efConstruction": 200}}


def hide_credentials(text: str, uri: str) -> str:
    """Replace the user name, password and token of a URI by ``***`` everywhere in a text."""
    userinfo = re.match(r"(?:\w+://|(?=.*:))(.*)@", uri, re.DOTALL)
    secrets = re.findall(r"(?:token|password|api_key)=([^&\s]+)", uri)
    if userinfo:
        secrets += [userinfo[1], userinfo[1].partition(":")[2]]
    for secret in sorted({*secrets, *map(unquote, secrets)}, key=len, reverse=True):
        if len(secret) > 2:  # shorter ones would match ordinary words; the pattern below hides them in addresses
            text = text.replace(secret, "***")
    return re.sub(r"(\w+://)[^/@\s]*@", r"\1***@", text)


class Connection:
    """Milvus client whose requests raise ``ConnectionError`` with the name of the public call if they fail.

    Parameters
    ----------
    uri
        A path such as ``"items.db"`` or an address such as ``"http://user:password@host:19530"``.
    timeout
        Seconds to wait for the response to a request.
    """

    def __init__(self, uri: str, timeout: float) -> None:
        if not isinstance(uri, str) or not uri:
            raise type_error(
                f'backend="milvus" needs uri, a path such as "items.db" or an address such as '
                f'"http://localhost:19530", got {type(uri).__name__ if uri else "nothing"}'
            )
        self.timeout = check_real("timeout", timeout, low=0, high=float("inf"), open_ends=True)
        self.milvus = import_extra("pymilvus")
        self._grpc = import_extra("grpc")
        self._uri = uri
        self.embedded = "://" not in uri  # milvus-lite, in this process
        self.address = hide_credentials(uri, uri)
        self.client: Any = self._connect(min(self.timeout, CONNECT_SECONDS))

    def _connect(self, timeout: float) -> Any:
        try:
            return self.attempt(lambda: self.milvus.MilvusClient(self._uri, timeout=timeout), timeout)
        except ValueError:
            pass  # its message may contain a part of the password
        raise value_error(
            f"uri must be a path or have the form http://user:password@host:port, got {self.address!r}; "
            f"write %2F for / and %40 for @ in a password"
        )

    def request(self, method: str, *given: Any, **more: Any) -> Any:
        """Call a method of the client."""
        return self.attempt(lambda: getattr(self.client, method)(*given, timeout=self.timeout, **more))

    def create_collection(
        self,
        name: str,
        *,
        text: tuple[str, int],
        vector: tuple[str, int],
        columns: bool = False,
        index: Mapping[str, Any] = FLAT,
    ) -> None:
        """Create a collection with an integer id, a text and a vector, which is searched by inner product.

        ``text`` is the name of its field and the maximum number of bytes, ``vector`` the name and the dimension,
        ``index`` its index, which is exact by default, and ``columns`` whether rows may have more fields.
        """
        kinds = self.milvus.DataType
        schema = self.client.create_schema(auto_id=False, enable_dynamic_field=columns)
        schema.add_field("id", kinds.INT64, is_primary=True)
        schema.add_field(text[0], kinds.VARCHAR, max_length=text[1])
        schema.add_field(vector[0], kinds.FLOAT_VECTOR, dim=vector[1])
        indexes = self.client.prepare_index_params()
        indexes.add_index(vector[0], metric_type="IP", **index)
        self.request(
            "create_collection",
            name,
            schema=schema,
            index_params=indexes,
            consistency_level="Strong",  # searches find items immediately after an add
        )

    def attempt(self, request: Callable[[], Any], timeout: float | None = None) -> Any:
        """Call ``request``, which sets its own timeout, by default that of this connection."""
        try:
            return request()
        except (self.milvus.MilvusException, self._grpc.RpcError) as error:
            message = self._explain(timeout or self.timeout, error)
        # Raised outside the except block, so that the original error, which may contain a password, is not chained.
        raise ConnectionError(named(message))

    def _explain(self, timeout: float, error: Any) -> str:
        if isinstance(error, self.milvus.MilvusException):
            code, details = error.code, error.message
        else:
            code, details = error.code(), error.details()
        timed_out = self._grpc.StatusCode.DEADLINE_EXCEEDED
        if code == timed_out or timed_out.name in str(details):
            return (
                f"the Milvus server at {self.address!r} did not respond within {timeout:g} s; increase "
                f"timeout=, or check that the server is running and not overloaded"
            )
        return (
            f"the Milvus server at {self.address!r} failed "
            f"({hide_credentials(str(details), self._uri):.300}); check that it is running and the address is correct"
        )
