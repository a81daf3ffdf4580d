# Writes a session with Gemini CLI itself, which goes on an hour later and calls a subagent.
# Arguments: a new folder, the folder of the package @google/gemini-cli, and clock.mjs.
set -eu
mkdir -p "$1/garden" "$1/.gemini"
cd "$1/garden"
export HOME="$1" GEMINI_API_KEY=none TZ=UTC GEMINI_CLI_TRUST_WORKSPACE=true NODE_OPTIONS="--import $3"
echo '{"privacy": {"usageStatisticsEnabled": false}}' > ../.gemini/settings.json
echo 'We plant forty birch trees.' > plan.md
answer() {  # an answer of the model: its parts, and its tokens
  echo '{"method": "generateContentStream", "response": [{"candidates": [{"index": 0, "finishReason": "STOP",
    "content": {"role": "model", "parts": ['"$1"']}}], "usageMetadata": {"promptTokenCount": '"$2"',
    "candidatesTokenCount": '"$3"', "totalTokenCount": 200, "thoughtsTokenCount": 5}}]}' | tr -d '\n'
  echo
}
ask() {
  BEGINS="$1" node "$package/bundle/gemini.js" -m gemini-2.5-flash --approval-mode yolo \
    --fake-responses "$2" $4 -p "$3"
}
package="$2"
{
  answer '{"text": "**Reading the plan**\nI open the file first.", "thought": true}, {"text": "I read the plan."},
    {"functionCall": {"name": "read_file", "args": {"file_path": "plan.md"}}}' 100 12
  answer '{"text": "Forty birch trees."}' 130 4
} > ../one.json
{
  answer '{"functionCall": {"name": "invoke_agent", "args": {"agent_name": "generalist", "prompt": "Where are rows named?"}}}' 150 6
  answer '{"text": "I look."}, {"functionCall": {"name": "complete_task", "args": {"result": {"response": "Nowhere."}}}}' 50 6
  answer '{"text": "Nothing names rows."}' 170 6
} > ../two.json
ask 2025-09-01T10:00:00Z ../one.json 'How many trees do we plant? See @plan.md' ''
ask 2025-09-01T11:00:00Z ../two.json 'What names the rows?' '-r latest'
