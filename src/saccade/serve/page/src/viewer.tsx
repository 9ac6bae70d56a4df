// One picture, large: what is known of it, what can be done with it, and why it is a hit.
import { useEffect, useRef, useState } from "preact/hooks";
import { type Hit, type Picture, type PictureFacts, api, wasAborted } from "./api";
import { ButIcon, CloseIcon, DownloadIcon, LikeIcon, NextIcon, OpenIcon, PreviousIcon, RemoveIcon, WhyIcon } from "./icons";
import type { State } from "./state";
import { addressOfFile, breakable, bytes, count, day, fileName, folderOf, nameOf, sentence, titleOf, wordsOf } from "./text";
import { HeatMap, Words, useExplanation } from "./why";

// Formats that browsers show as they are; of others a large copy is shown.
const shown = new Set(["jpeg", "png", "webp", "gif", "svg", "avif", "bmp"]);

function Facts({ facts, hit }: { facts: PictureFacts | null; hit: Hit | null }) {
  if (!facts) return null;
  const right = hit?.match_probability?.right;
  // The date that filters and orders go by. A clock on a wall has no zone: it is read as if it stood here.
  const taken = facts.dated_by === "taken" ? facts.metadata.taken : undefined;
  const date = taken ? Date.parse(taken) / 1000 : facts.modified;
  return (
    <dl class="facts">
      <div>
        <dt>Size</dt>
        <dd>
          {facts.width > 0 ? `${count(facts.width)} × ${count(facts.height)}` : "not known"}
          <span class="dim">
            {facts.format && ` · ${facts.format.toUpperCase()}`}
            {facts.bytes !== null && ` · ${bytes(facts.bytes)}`}
          </span>
        </dd>
      </div>
      <div>
        <dt>Date</dt>
        <dd>
          {date === null ? "not known" : day(date)}
          {date !== null && <span class="dim"> · {taken ? "when it was taken" : "of the file"}</span>}
        </dd>
      </div>
      <div>
        <dt>Folder</dt>
        <dd class="path">{folderOf(facts.path)}</dd>
      </div>
      {hit && hit.score !== null && (
        <div>
          <dt>Match</dt>
          <dd>
            {hit.match && right != null ? (
              <span title={`match probability ${right.toFixed(2)}`}>{sentence(hit.match)}</span>
            ) : (
              `number ${count(hit.rank)}`
            )}
            <span class="dim"> · score {hit.score.toFixed(3)}</span>
          </dd>
        </div>
      )}
      {hit?.keywords && (
        <div>
          <dt>Words</dt>
          <dd>{wordsOf(hit)}</dd>
        </div>
      )}
    </dl>
  );
}

export function Viewer({ state, collection, composer, id, known, isHit, explains, previous, next, go, close, like, but, remove }: {
  state: State;
  collection: string;
  composer: boolean;
  id: number;
  known: Picture | Hit | null; // what the grid knows of it
  isHit: boolean;
  explains: boolean;
  previous: number; // 0: none
  next: number;
  go: (id: number) => void;
  close: () => void;
  like: (id: number) => void;
  but: (id: number, words: string) => void;
  remove: ((id: number) => void) | null; // null: nothing can be taken out
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [facts, setFacts] = useState<PictureFacts | null>(null);
  const [error, setError] = useState<string | null>(null);
  const [why, setWhy] = useState(false);
  const [heat, setHeat] = useState(true);
  const [words, setWords] = useState("");
  const [sure, setSure] = useState(false); // asked once whether to remove it
  const { explanation, error: whyError } = useExplanation(state, collection, composer, id, why && isHit);

  useEffect(() => {
    const element = dialog.current!;
    if (!element.open) element.showModal();
    document.documentElement.classList.add("viewing");
    return () => document.documentElement.classList.remove("viewing");
  }, []);
  useEffect(() => {
    const control = new AbortController();
    setFacts(null);
    setError(null);
    setWords("");
    setSure(false);
    api
      .picture(collection, id, control.signal)
      .then(setFacts)
      .catch((failure) => {
        if (!wasAborted(failure)) setError((failure as Error).message);
      });
    return () => control.abort();
  }, [collection, id]);

  const picture = facts ?? known;
  const gone = error !== null && picture === null;
  const hit = known && "score" in known ? (known as Hit) : null;
  const name = picture ? nameOf(picture) : "Picture";
  const keys = (event: KeyboardEvent) => {
    if (event.target instanceof HTMLInputElement) return;
    if (event.key === "ArrowLeft" && previous) go(previous);
    else if (event.key === "ArrowRight" && next) go(next);
    else return;
    event.preventDefault();
  };
  return (
    <dialog
      ref={dialog}
      class="viewer"
      aria-label={name}
      onKeyDown={keys}
      onCancel={(event) => {
        event.preventDefault();
        close();
      }}
      onClick={(event) => {
        if (event.target === dialog.current) close();
      }}
    >
      <div class="stage">
        {picture && (
          <div class="frame" style={{ aspectRatio: `${picture.width || 1} / ${picture.height || 1}`, "--shape": String((picture.width || 1) / (picture.height || 1)) }}>
            {picture.file_here && <img key={id} class={`large ${why && heat && explanation?.map ? "under-heat" : ""}`} src={shown.has(picture.format) ? picture.file : `${picture.thumbnail}?size=1024`} alt={name} draggable={false} />}
            {why && heat && explanation?.map && <HeatMap map={explanation.map} />}
          </div>
        )}
        {previous !== 0 && (
          <button type="button" class="step back" onClick={() => go(previous)} aria-label="Previous picture">
            <PreviousIcon />
          </button>
        )}
        {next !== 0 && (
          <button type="button" class="step on" onClick={() => go(next)} aria-label="Next picture">
            <NextIcon />
          </button>
        )}
        <button type="button" class="step away" onClick={close} aria-label="Close">
          <CloseIcon />
        </button>
      </div>
      <div class="about">
        {error && <p class="wrong" role="alert">{error}</p>}
        <h2>{picture ? breakable(titleOf(picture)).map((part) => [part, <wbr key={part} />]) : gone ? "No such picture" : " "}</h2>
        {picture && !picture.file_here && <p class="wrong">The file is not on this host: the picture was imported without it.</p>}
        {picture?.caption && <p class="caption">{picture.caption}</p>}
        {!gone && (
          <>
            <form
              class="but"
              onSubmit={(event) => {
                event.preventDefault();
                if (words.trim()) but(id, words);
              }}
            >
              <ButIcon />
              <input type="text" value={words} placeholder="This picture, but …" aria-label="This picture, but …" autocomplete="off"
                onInput={(event) => setWords(event.currentTarget.value)} />
              <button type="submit" class="main" disabled={!words.trim()}>Find</button>
            </form>
            <div class="actions">
              <button type="button" onClick={() => like(id)}>
                <LikeIcon />
                More like this
              </button>
              {picture && (
                <>
                  {picture.file_here && (
                    <>
                      <a href={addressOfFile(picture)} target="_blank" rel="noopener">
                        <OpenIcon />
                        Open
                      </a>
                      <a href={picture.file} download={fileName(picture.path)}>
                        <DownloadIcon />
                        Download
                      </a>
                    </>
                  )}
                  {remove && (
                    <button type="button" class={sure ? "sure" : ""} onClick={() => (sure ? remove(id) : setSure(true))}
                      title="Out of the collection, to stay out">
                      <RemoveIcon />
                      {sure ? "Really remove it?" : "Remove"}
                    </button>
                  )}
                </>
              )}
            </div>
          </>
        )}
        <Facts facts={facts} hit={hit} />
        {isHit && explains && !gone && (
          <section class="why">
            <button type="button" class="disclose" aria-expanded={why} onClick={() => setWhy(!why)}>
              <WhyIcon />
              Why this hit
            </button>
            {why && (
              <div class="why-body" aria-live="polite">
                {!explanation && !whyError && <p class="hint">Looking again …</p>}
                {whyError && <p class="wrong">{whyError}</p>}
                {explanation && (
                  <>
                    <Words explanation={explanation} text={state.text} />
                    {explanation.words.length > 1 && (
                      <p class="hint">The stronger a word is shaded, the more the picture owes to it; struck through are words that count against it.</p>
                    )}
                    {explanation.map && (
                      <label class="switch">
                        <input type="checkbox" checked={heat} onChange={() => setHeat(!heat)} />
                        Show where in the picture
                      </label>
                    )}
                    {explanation.no_map && <p class="hint">{explanation.no_map}</p>}
                  </>
                )}
              </div>
            )}
          </section>
        )}
      </div>
    </dialog>
  );
}
