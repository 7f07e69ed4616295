"""The HTTP side of the service: routes, limits on size and time, metrics."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import socket
import time
from collections.abc import AsyncIterator

import prometheus_client as prometheus
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tf_probunet import limits
from tf_probunet.artifacts.saved_model import LoadedModel
from tf_probunet.serve.config import ServeConfig
from tf_probunet.serve.service import Answer, Service

_log = logging.getLogger(__name__)
_ROUTES = "POST /predict, GET /health, GET /metrics"
# Up to this much of a body that is too large is read, so that the client gets a reply.
_MAX_DISCARDED = 2**28


class _Metrics:
    """What `/metrics` shows, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = prometheus.CollectorRegistry()
        self.requests = prometheus.Counter(
            "tf_probunet_requests",
            "Answered requests for a prediction, by HTTP status.",
            ["status"],
            registry=self.registry,
        )
        self.seconds = prometheus.Histogram(
            "tf_probunet_request_seconds",
            "Time from a request to its answer.",
            buckets=(0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60),
            registry=self.registry,
        )
        self.active = prometheus.Gauge(
            "tf_probunet_active_requests",
            "Requests that wait for their answer.",
            registry=self.registry,
        )
        self.batches = prometheus.Histogram(
            "tf_probunet_batch_size",
            "Images that the network segments at once, by function.",
            ["function"],
            buckets=(1, 2, 4, 8, 16, 32, 64),
            registry=self.registry,
        )

    def observe_batch(self, function: str, size: int) -> None:
        self.batches.labels(function).observe(size)


class App:
    """The service as an ASGI application.

    Attributes:
        asgi: for an ASGI server.
        service: that answers.
    """

    def __init__(self, model: LoadedModel, config: ServeConfig) -> None:
        """Starts the service.

        Args:
            model: to segment with.
            config: the limits.
        """
        self._config = config
        self._metrics = _Metrics()
        self._active = 0
        # While a batch is computed, the next one is read and the last one written.
        self._threads = concurrent.futures.ThreadPoolExecutor(2 * config.max_batch)
        self.service = Service(model, config, self._metrics.observe_batch)
        self.asgi = Starlette(
            routes=[
                Route("/predict", self._predict, methods=["POST"]),
                Route("/health", self._health),
                Route("/metrics", self._show_metrics),
            ],
            exception_handlers={HTTPException: _on_http_error},
            lifespan=self._lifespan,
        )

    @contextlib.asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        yield
        self.service.close()
        self._threads.shutdown(wait=True)

    async def _health(self, _: Request) -> Response:
        model = self.service.model
        return JSONResponse(
            {
                "status": "ok",
                "model": model.path.name,
                "trained_on": model.dataset["name"],
                "fingerprint": model.dataset["fingerprint"],
            }
        )

    async def _show_metrics(self, _: Request) -> Response:
        return Response(
            prometheus.generate_latest(self._metrics.registry),
            headers={"content-type": prometheus.CONTENT_TYPE_LATEST},
        )

    async def _predict(self, request: Request) -> Response:
        start = time.monotonic()
        # Counted before anything is read, so that memory is bounded.
        is_full = self._active >= self._config.max_requests
        self._active += 1
        self._metrics.active.set(self._active)
        try:
            response = await self._respond(request, start, is_full)
        finally:
            self._active -= 1
            self._metrics.active.set(self._active)
        self._metrics.requests.labels(str(response.status_code)).inc()
        self._metrics.seconds.observe(time.monotonic() - start)
        return response

    async def _respond(self, request: Request, start: float, is_full: bool) -> Response:
        config = self._config
        most = 0 if is_full else config.max_upload_mib * 2**20
        deadline = start + config.timeout_seconds
        try:
            content = await asyncio.wait_for(
                _read_body(request, most), config.timeout_seconds
            )
            if is_full:
                return _error(
                    503,
                    f"{config.max_requests} requests are waiting already, try again "
                    "later",
                )
            if request.headers.get("content-type", "").startswith("multipart/"):
                return _error(
                    415,
                    "image: sent as a form, expected the file itself as the body "
                    "(curl --data-binary @file)",
                )
            if content is None:
                return _error(
                    413, f"image: expected at most {config.max_upload_mib} MiB"
                )
            answer = await asyncio.wait_for(
                self._in_thread(content, dict(request.query_params), deadline),
                deadline - time.monotonic(),
            )
        except ValueError as error:
            return _error(400, str(error))
        except (asyncio.TimeoutError, TimeoutError):
            return _error(
                504, f"no answer within {config.timeout_seconds:g} s, try again later"
            )
        except ClientDisconnect:
            return _error(400, "image: the upload was not finished")
        except MemoryError:
            return _error(503, "the server is out of memory, try again later")
        except Exception:
            _log.exception("a request failed")
            return _error(500, "internal error; the server's log says more")
        return Response(answer.content, media_type=answer.media_type)

    def _in_thread(
        self, content: bytes, parameters: dict[str, str], deadline: float
    ) -> asyncio.Future[Answer]:
        return asyncio.get_running_loop().run_in_executor(
            self._threads, self.service.answer, content, parameters, deadline
        )


def serve(model: LoadedModel, config: ServeConfig) -> None:
    """Answers requests until the process is asked to stop; running ones are finished.

    Args:
        model: to segment with.
        config: where to listen, and the limits.

    Raises:
        ValueError: the address cannot be used, or the model fails.
    """
    with listen(config) as listening:
        # Of every reader in this process: several requests are read at once.
        limits.MAX_BYTES = config.max_memory_mib * 2**20
        app = App(model, config)
        app.service.warm_up()
        host, port = listening.getsockname()[:2]
        name = f"[{host}]" if ":" in host else host
        print(f"serving {model.path} at http://{name}:{port}", flush=True)
        server(app, config).run(sockets=[listening])


def listen(config: ServeConfig) -> socket.socket:
    """Opens the socket to listen on.

    Raises:
        ValueError: the address cannot be used.
    """
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    try:
        return socket.create_server((config.host, config.port), family=family)
    except OSError as error:
        reason = (error.strerror or str(error)).partition(" (while")[0]
        raise ValueError(
            f"cannot listen on {config.host}, port {config.port} ({reason}), expected "
            "another --host or --port"
        ) from error


def server(app: App, config: ServeConfig) -> uvicorn.Server:
    """Returns the HTTP server for an application."""
    return uvicorn.Server(
        uvicorn.Config(
            app.asgi,
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=int(config.timeout_seconds) + 1,
        )
    )


async def _read_body(request: Request, most: int) -> bytes | None:
    """Returns the body of a request; None if it is larger than `most` bytes.

    The rest is read and thrown away: a client that is still sending does not look for
    an answer.
    """
    content, size = bytearray(), 0
    async for chunk in request.stream():
        size += len(chunk)
        if size <= most:
            content += chunk
        else:
            content.clear()
        if size > most + _MAX_DISCARDED:
            return None
    return bytes(content) if size <= most else None


async def _on_http_error(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 500)
    return _error(
        status, f"no {request.method} {request.url.path}, expected one of {_ROUTES}"
    )


def _error(status: int, text: str) -> Response:
    headers = {"retry-after": "1"} if status in (503, 504) else None
    content = {"error": " ".join(text.split())}
    return JSONResponse(content, status, headers)
