"""The package for toolkits in TypeScript, with the real toolkits, in an empty project."""

import json
import re
import shutil
from pathlib import Path

import pytest
from recollect import Client, Message

from tests.conftest import RunningServer
from tests.typescript.conftest import CLIENT, node, npm, ran

TOOLKITS = CLIENT.parent / "toolkits"
TSC = CLIENT / "node_modules" / "typescript" / "bin" / "tsc"
OLDEST = "ai@6.0.326", "@ai-sdk/react@3.0.328"
"""The Vercel AI SDK one major version before the newest, which the other tests have."""
OPTIONS = [
    "--module",
    "nodenext",
    "--target",
    "es2022",
    "--lib",
    "es2024,dom",
    "--strict",
    "--skipLibCheck",
]
SCRIPTED = """
import { Usage as OfTest, type Model as ModelOfTest } from "@openai/agents";
const answers = ["Logs filled the disk.", "You asked why the server was slow."];
const model: ModelOfTest = {
  async getResponse() {
    const content = [{ type: "output_text" as const, text: answers.shift()! }];
    return { output: [{ type: "message", role: "assistant", status: "completed", content }], usage: new OfTest() };
  },
  async *getStreamedResponse() {},
};
"""
STREAMED = """
import { convertArrayToReadableStream, MockLanguageModelV4 } from "ai/test";
const usage = { inputTokens: {} as never, outputTokens: {} as never };
const model = new MockLanguageModelV4({
  doStream: async () => ({
    stream: convertArrayToReadableStream([
      { type: "text-start", id: "1" },
      { type: "text-delta", id: "1", delta: "heron, I think." },
      { type: "text-end", id: "1" },
      { type: "finish", finishReason: { unified: "stop", raw: "stop" }, usage },
    ]),
  }),
});
"""
ANSWERING = """
import { MockLanguageModelV4 } from "ai/test";
const usage = { inputTokens: {} as never, outputTokens: {} as never };
const model = new MockLanguageModelV4({
  doGenerate: async ({ prompt: [first] }) => {
    const isRecalled = first!.role === "system" && first!.content.includes("called heron");
    const text = isRecalled ? "It is called heron." : "Noted.";
    return { content: [{ type: "text", text }], finishReason: { unified: "stop", raw: "stop" }, usage, warnings: [] };
  },
});
"""
POSTED = """
const text = "What is the staging database called?";
const posted = { id: "chat-1", messages: [{ id: "m1", role: "user", parts: [{ type: "text", text }] }] };
await (await POST(new Request("http://localhost", { method: "POST", body: JSON.stringify(posted) }))).text();
console.log((await chats.load("chat-1")).map((it) => it.role).join(), JSON.stringify(model.doStreamCalls[0]!.prompt[0]));
recollect.close();
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the packed packages and the toolkits in an empty project."""
    node()
    folder = tmp_path_factory.mktemp("toolkits")
    package = json.loads((TOOLKITS / "package.json").read_text())
    (folder / "package.json").write_text('{"name": "empty", "private": true, "type": "module"}')
    [client] = json.loads(npm("pack", "--json", "--pack-destination", folder, cwd=CLIENT))
    pins = [f"{name}@{version}" for name, version in package["devDependencies"].items()]
    npm("install", "--prefer-offline", folder / client["filename"], *pins, cwd=folder)
    # The sources are compiled where their peers are, and are packed as npm does.
    (folder / "build").symlink_to(TOOLKITS / "src")
    built = folder / "packed" / "dist"
    options = [
        *OPTIONS,
        "--declaration",
        "--preserveSymlinks",
        "--rootDir",
        "build",
        "--outDir",
        str(built),
    ]
    ran(TSC, *options, *(f"build/{it.name}" for it in (TOOLKITS / "src").glob("*.ts")), cwd=folder)
    for name in ("package.json", "README.md", "LICENSE"):
        (built.parent / name).write_bytes((TOOLKITS / name).read_bytes())
    [own] = json.loads(
        npm("pack", "--json", "--ignore-scripts", "--pack-destination", folder, cwd=built.parent)
    )
    assert {"dist/ai-sdk.d.ts", "dist/openai-agents.js", "LICENSE"} <= {
        it["path"] for it in own["files"]
    }
    npm("install", "--prefer-offline", folder / own["filename"], cwd=folder)
    return folder


def typed(project: Path, name: str, text: str) -> str:
    """Check and compile a program, and return the name of what can be run."""
    (project / f"{name}.ts").write_text(text)
    ran(TSC, *OPTIONS, "--types", "node", f"{name}.ts", cwd=project)
    return f"{name}.js"


@pytest.mark.timeout(400)
def test_sessions_memory_and_chats_do_what_the_real_toolkits_expect(
    project: Path, server: RunningServer
) -> None:
    program = typed(project, "toolkits.test", (TOOLKITS / "test" / "toolkits.test.ts").read_text())
    output = ran("--test", program, cwd=project, RECOLLECT_TEST_ADDRESS=server.target)
    assert re.search(r"^# pass 7$", output, re.MULTILINE)


@pytest.mark.timeout(400)
def test_memory_and_chats_do_the_same_with_the_major_version_before(
    project: Path, server: RunningServer, tmp_path: Path
) -> None:
    folder = shutil.copytree(project, tmp_path / "older", symlinks=True)
    npm("install", "--prefer-offline", *OLDEST, cwd=folder)
    text = (TOOLKITS / "test" / "toolkits.test.ts").read_text()
    program = typed(folder, "older.test", text.replace("ModelV4", "ModelV3"))
    output = ran("--test", program, cwd=folder, RECOLLECT_TEST_ADDRESS=server.target)
    assert re.search(r"^# pass 7$", output, re.MULTILINE)


@pytest.mark.timeout(400)
def test_the_blocks_of_the_readme_run_and_print_what_it_says(
    project: Path, server: RunningServer, client: Client
) -> None:
    conversation = client.conversations.create("web")
    fact = Message.user("The staging database is called heron.")
    client.conversations.append_turn(conversation.id, [fact, Message.assistant("Noted.")])
    text = (TOOLKITS / "README.md").read_text().replace("127.0.0.1:50051", server.target)
    agents, printed, chat = re.findall(r"```(?:ts)?\n(.*?)```", text, re.DOTALL)
    program = typed(project, "agents", SCRIPTED + agents)
    assert ran(program, cwd=project, OPENAI_AGENTS_DISABLE_TRACING="1") == printed
    output = ran(typed(project, "chat", STREAMED + chat + POSTED), cwd=project)
    roles, _, recalled = output.partition(" ")
    assert roles == "user,assistant"
    assert json.loads(recalled)["role"] == "system"
    assert "heron" in recalled
    channels = {it.channel for it in client.conversations.list()}
    assert channels == {"web", "agents-js", "ai-sdk"}


@pytest.mark.timeout(400)
def test_the_program_for_the_vercel_ai_sdk_recalls_across_chats(
    project: Path, server: RunningServer
) -> None:
    page = (CLIENT.parents[1] / "docs/toolkits/vercel.md").read_text()
    page = page.replace("127.0.0.1:50051", server.target)
    [(program, printed)] = re.findall(r"```ts\n(.*?)```.*?```\n(.*?)```", page, re.DOTALL)
    assert ran(typed(project, "vercel", ANSWERING + program), cwd=project) == printed


def test_the_client_is_no_heavier_for_the_toolkits() -> None:
    package = json.loads((CLIENT / "package.json").read_text())
    toolkits = json.loads((TOOLKITS / "package.json").read_text())
    assert "dependencies" not in toolkits
    assert not set(toolkits["peerDependencies"]) & set(package["dependencies"])
    optional = {name for name, it in toolkits["peerDependenciesMeta"].items() if it["optional"]}
    assert optional | {"@recollect/client"} == set(toolkits["peerDependencies"])
