// Jumping to a turn or to a date.
import { useState } from "preact/hooks";
import { describe } from "../../api/errors";
import { t } from "../../texts/views";
import { DateField } from "../../ui/DateField";
import type { Transcript } from "./transcript";

export function Jump({ transcript, go }: { transcript: Transcript; go: (turn: number) => void }) {
  const [day, setDay] = useState("");
  const [problem, setProblem] = useState("");
  const total = transcript.shown.value.conversation?.turnCount ?? 0;
  const toDate = async (day: string) => {
    setDay(day);
    setProblem("");
    try {
      if (day) go(await transcript.turnAt(new Date(`${day}T00:00`).getTime()));
    } catch (failure) {
      setProblem(describe(failure));
    }
  };
  if (total < 2) return null;
  return (
    <div class="jump">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          const turn = Number(new FormData(event.currentTarget).get("turn"));
          if (turn) go(Math.min(Math.max(turn, 1), total));
        }}
      >
        <label>{t.conversation.jumpTurn}<input name="turn" type="number" min={1} max={total} placeholder={String(total)} /></label>
      </form>
      <DateField name="date" label={t.conversation.jumpDate} value={day} onChange={(it) => void toDate(it)} />
      {problem && <span class="error" role="alert">{problem}</span>}
    </div>
  );
}
