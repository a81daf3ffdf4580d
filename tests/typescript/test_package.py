"""The package of the TypeScript client, as npm packs it, in an empty project."""

import json
import re
import shutil
from pathlib import Path

from recollect import Client

from tests.conftest import RunningServer
from tests.typescript.conftest import CLIENT, built, node, npm, ran

EXAMPLE = Path(__file__).parents[2] / "examples" / "node"


def test_the_package_works_in_an_empty_project(
    server: RunningServer, client: Client, tmp_path: Path
) -> None:
    node()
    (packed,) = json.loads(npm("pack", "--json", "--pack-destination", tmp_path, cwd=CLIENT))
    names = {it["path"] for it in packed["files"]}
    assert {"LICENSE", "README.md", "dist/index.d.ts", "dist/node.js", "dist/web.js"} <= names
    assert not [name for name in names if name.startswith(("src/", "test/", "build/"))]
    project = tmp_path / "project"
    project.mkdir()
    (project / "package.json").write_text('{"name": "empty", "private": true, "type": "module"}')
    npm("install", "--prefer-offline", tmp_path / packed["filename"], cwd=project)

    shutil.copy(EXAMPLE / "tour.js", project)
    output = ran("tour.js", server.target, cwd=project).splitlines()
    (conversation,) = client.conversations.list()
    assert output == [
        f"Created   {conversation.id} on web",
        "Watches   1 conversation",
        "Saw       Why was the server so slow? / The disk is full: logs, mostly.",
        "Missed    Then rotate them daily. / Done: every night at three.",
        "Searched  turn 2: Then rotate them daily.",
    ]

    # The README's lines are typed and run, with the server of this test.
    lines, printed = re.findall(
        r"```(?:ts)?\n(.*?)```", (CLIENT / "README.md").read_text(), re.DOTALL
    )[:2]
    (project / "readme.ts").write_text(lines.replace("127.0.0.1:50051", server.target))
    options = ["--module", "nodenext", "--target", "es2022", "--strict", "--skipLibCheck"]
    ran(CLIENT / "node_modules/typescript/bin/tsc", *options, "readme.ts", cwd=project)
    assert ran("readme.js", cwd=project) == printed


def test_the_tests_in_typescript_pass(server: RunningServer) -> None:
    output = ran("--test", built() / "client.test.js", RECOLLECT_TEST_ADDRESS=server.target)
    assert re.search(r"^# pass [1-9]", output, re.MULTILINE)


def test_the_package_json_pins_what_the_lock_file_has() -> None:
    lock_text = (CLIENT / "package-lock.json").read_text()
    package, lock = json.loads((CLIENT / "package.json").read_text()), json.loads(lock_text)
    pins = package["dependencies"] | package["devDependencies"]
    locked = {name: lock["packages"][f"node_modules/{name}"]["version"] for name in pins}
    assert locked == pins
    assert "://" not in lock_text
