// What somebody says of an answer: a thumb, and a word if they like.
import { useState } from "preact/hooks";
import type { Conversation } from "@recollect/client";
import { describe } from "../../api/errors";
import { give, LONGEST, type Feedback } from "../../state/feedback";
import { t } from "../../texts/views";
import { useFocus } from "../../ui/focus";
import { Icon } from "../../ui/Icon";
import { tell } from "../../ui/Notice";
import { unitsOf } from "../../ui/text";

interface ThumbsProps {
  conversation: Conversation;
  turn: number;
  feedback: Feedback | undefined;
  /** Called with whether a word is asked for. */
  onAsk: (isAsking: boolean) => void;
}

export function Thumbs({ conversation, turn, feedback, onAsk }: ThumbsProps) {
  const press = async (isGood: boolean) => {
    const isBack = feedback?.isGood === isGood;
    try {
      await give(conversation, turn, isBack ? undefined : { isGood, word: "" });
      onAsk(!isBack);
    } catch (error) {
      tell({ text: describe(error) });
    }
  };
  return (
    <>
      {[true, false].map((isGood) => {
        const text = isGood ? t.feedback.good : t.feedback.bad;
        return (
          <button
            key={text} class="quiet" type="button" aria-pressed={feedback?.isGood === isGood} aria-label={text} title={text}
            onClick={() => void press(isGood)}
          >
            <Icon name={isGood ? "good" : "bad"} />
          </button>
        );
      })}
    </>
  );
}

interface WordProps {
  conversation: Conversation;
  feedback: Feedback;
  onEnd: () => void;
}

/** The field for a word to a thumb that was given. */
export function WordForm({ conversation, feedback, onEnd }: WordProps) {
  const [word, setWord] = useState(feedback.word);
  const [problem, setProblem] = useState("");
  const input = useFocus();
  const save = async (event: Event) => {
    event.preventDefault();
    try {
      if (word.trim() !== feedback.word) await give(conversation, feedback.turn, { isGood: feedback.isGood, word: word.trim() });
      onEnd();
    } catch (error) {
      setProblem(describe(error));
    }
  };
  const label = feedback.isGood ? t.feedback.whyGood : t.feedback.whyBad;
  return (
    <form class="feedback" onSubmit={save} onKeyDown={(event) => event.key === "Escape" && onEnd()}>
      <input
        ref={input} aria-label={label} placeholder={label} value={word} maxLength={unitsOf(LONGEST)} dir="auto"
        onInput={(event) => setWord(event.currentTarget.value)}
      />
      <button class="button">{t.feedback.keep}</button>
      <button class="quiet" type="button" aria-label={t.feedback.noWord} title={t.feedback.noWord} onClick={onEnd}><Icon name="close" /></button>
      {problem && <span class="error" role="alert">{problem}</span>}
    </form>
  );
}
