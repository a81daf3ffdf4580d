"""The client needs grpcio and protobuf alone; what its extras need is loaded by the extras."""

import subprocess
import sys

EXTRAS = (
    "agents",
    "anthropic",
    "click",
    "langchain_core",
    "langgraph",
    "mcp",
    "openai",
    "pydantic",
    "rich",
)


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )


def test_the_client_loads_nothing_that_its_extras_need() -> None:
    ran = run(f"import recollect, sys; print([name for name in {EXTRAS!r} if name in sys.modules])")
    assert (ran.stdout.strip(), ran.stderr) == ("[]", "")


def test_each_command_says_which_extra_it_needs() -> None:
    for module, missing, extra in (("cli", ("click", "rich"), "cli"), ("mcp", ("mcp",), "mcp")):
        ran = run(
            "import sys\n"
            "import importlib.util as util\n"
            "found = util.find_spec\n"
            f"util.find_spec = lambda name, *more: None if name in {missing!r} else found(name, *more)\n"
            f"from recollect.{module}.main import main\n"
            "sys.argv = ['command']\n"
            "main()\n"
        )
        assert ran.returncode == 1
        assert f"pip install 'recollect-client[{extra}]'" in ran.stderr
        assert "Traceback" not in ran.stderr
