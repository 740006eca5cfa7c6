"""The door: user and password, as the brokers know them."""

from urllib.parse import quote, urlsplit

from starlette.responses import Response

from tallystick.client.errors import NotAuthenticated
from tallystick.console.options import Options
from tallystick.console.visit import Visit


def cookie_name(options: Options) -> str:
    """Cookies know no ports: two consoles of one machine are told apart by name."""
    return f"tallystick-console-{options.port}"


def keep(visit: Visit, response: Response) -> None:
    """Give the visitor the cookie, if it is not there or has just become another one."""
    options = visit.console.options
    name = cookie_name(options)
    if visit.request.cookies.get(name) == visit.token or name in response.headers.get("set-cookie", ""):
        return
    _set(visit, response, visit.token)


def _set(visit: Visit, response: Response, token: str) -> None:
    """Lax: behind a link on somebody else's page a visitor is who he was. With `Strict` no cookie came with it, and the
    one that the answer brings along would end his session. Nothing is changed by a link."""
    options = visit.console.options
    response.set_cookie(cookie_name(options), token, httponly=True, samesite="lax", secure=options.is_encrypted)


def ask(visit: Visit) -> Response:
    """To the form, and back from there to where the visitor was going."""
    here = visit.request.url.path
    if visit.request.method != "GET" or here.startswith("/live/"):
        return visit.page("login.html", status=401, then="/", refusal="", name="")
    if visit.request.headers.get("hx-request"):  # a search: the whole page is to go there, not the list in it
        return Response(status_code=401, headers={"HX-Refresh": "true"})
    query = visit.request.url.query
    return visit.to("/login", then=f"{here}?{query}" if query else here)


async def form(visit: Visit) -> Response:
    """Where nobody has to say who he is, there is none."""
    if visit.session is not None:
        return visit.to("/")
    return visit.page("login.html", then=_inside(visit.word("then")), refusal="", name="")


async def enter(visit: Visit) -> Response:
    """A new secret with every login: one that was known before is worth nothing behind it."""
    user, then = visit.form.get("user", ""), _inside(visit.form.get("then", "/"))
    if visit.session is not None:
        return visit.to(then)
    client = visit.request.client
    address = client.host if client is not None else ""
    try:
        token = await visit.console.sessions.log_in(user, visit.form.get("password", ""), address)
    except NotAuthenticated as problem:
        return visit.page("login.html", status=401, then=then, refusal=str(problem), name=user)
    response = visit.to(quote(then, safe="/?=&%+:"))
    _set(visit, response, token)
    return response


async def leave(visit: Visit) -> Response:
    await visit.console.sessions.log_out(visit.token)
    response = visit.to("/login")
    _set(visit, response, visit.console.sessions.fresh_token())
    return response


def _inside(path: str) -> str:
    """A path of this console; nobody is sent elsewhere by a link to the form."""
    parts = urlsplit(path)
    is_ours = path.startswith("/") and not path.startswith(("//", "/\\")) and not parts.netloc and not parts.scheme
    return path if is_ours and path.isprintable() else "/"
