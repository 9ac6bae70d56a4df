// The page: its state is its address (state.ts); the server answers (api.ts); everything else is drawn from both.
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Answer, ApiError, type CollectionInfo, type Facet, type ModelInfo, type Part, type Picture, api } from "./api";
import { ChangeNews, ChangeTools, useChanges } from "./changes";
import { Filters } from "./filters";
import { Grid, type GridActions, Skeleton } from "./grid";
import { AutoIcon, Mark, MoonIcon, SunIcon } from "./icons";
import { imageOf, pictureIn, takeImage } from "./images";
import { useResults } from "./results";
import { SearchField } from "./search_field";
import { type State, addressOf, datedHits, filterOf, initial, isSearch, possibleAt, secondsOf, stateOf } from "./state";
import { count, counted, duration, sentence } from "./text";
import { Viewer } from "./viewer";

// Typing is one step of the history, however many letters it has.
const typingStepMs = 1500;
const lookMs = 10_000;

function useAddress(): [State, (change: Partial<State>, typing?: boolean) => void] {
  const [state, setState] = useState(() => stateOf(location.search));
  const latest = useRef(state);
  const lastTyped = useRef(0);
  useEffect(() => {
    const follow = () => {
      lastTyped.current = 0;
      latest.current = stateOf(location.search);
      setState(latest.current);
    };
    addEventListener("popstate", follow);
    return () => removeEventListener("popstate", follow);
  }, []);
  const change = useCallback((part: Partial<State>, typing = false) => {
    const next = { ...latest.current, ...part };
    const address = addressOf(next);
    const now = performance.now();
    const goesOn = typing && lastTyped.current !== 0 && now - lastTyped.current < typingStepMs;
    lastTyped.current = typing ? now : 0;
    if (address !== addressOf(latest.current)) {
      if (goesOn) history.replaceState(history.state, "", address);
      else history.pushState({ from: addressOf(latest.current) }, "", address);
    }
    latest.current = next;
    setState(next);
  }, []);
  return [state, change];
}

type Theme = "auto" | "light" | "dark";

function useTheme(): [Theme, () => void] {
  const [theme, setTheme] = useState<Theme>(() => (localStorage.getItem("saccade-theme") as Theme | null) ?? "auto");
  useEffect(() => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    localStorage.setItem("saccade-theme", theme);
  }, [theme]);
  return [theme, () => setTheme(theme === "auto" ? "light" : theme === "light" ? "dark" : "auto")];
}

function KeyForm({ onKey }: { onKey: () => void }) {
  const [key, setKey] = useState("");
  const [error, setError] = useState<string | null>(null);
  return (
    <main class="notice">
      <h1>A key, please</h1>
      <p>This server answers those who have one of its keys.</p>
      <form
        class="key"
        onSubmit={(event) => {
          event.preventDefault();
          api.openSession(key).then(onKey, (failure) => setError((failure as Error).message));
        }}
      >
        <input type="password" value={key} aria-label="Key" autocomplete="current-password" aria-invalid={error !== null}
          onInput={(event) => setKey(event.currentTarget.value)} />
        <button type="submit" class="main">Enter</button>
      </form>
      {error && <p class="wrong" role="alert">{error}</p>}
    </main>
  );
}

// What "-word" weighs where no number is given.
const plainNot = -0.25;

// How a text of several parts was understood.
function Parts({ parts, said }: { parts: Part[]; said: string | null }) {
  const shown = (weight: number) => Math.abs(weight).toFixed(2).replace(/\.?0+$/, "");
  return (
    <ul class="parts" aria-label="How the text was understood" title={said ?? undefined}>
      {parts.map((part, i) => (
        <li key={i} class={part.weight < 0 ? "part not" : "part"}>
          {part.weight < 0 && <span class="dim">not </span>}
          {part.text ?? "the picture"}
          {part.weight !== 1 && part.weight !== plainNot && <span class="dim">{` × ${shown(part.weight)}`}</span>}
        </li>
      ))}
    </ul>
  );
}

// Warnings about a collection or its model, each until the reader closes it in this tab.
const closedKey = "saccade-closed-warnings";
function Warnings({ texts }: { texts: string[] }) {
  const [closed, setClosed] = useState<string[]>(() => JSON.parse(sessionStorage.getItem(closedKey) ?? "[]") as string[]);
  const shown = texts.filter((text) => !closed.includes(text));
  const close = (text: string) => {
    const all = [...closed, text];
    sessionStorage.setItem(closedKey, JSON.stringify(all));
    setClosed(all);
  };
  return (
    <>
      {shown.map((text) => (
        <p key={text} class="banner warning" role="note">
          <span>{sentence(text)}</span>
          <button type="button" class="link" onClick={() => close(text)}>Close</button>
        </p>
      ))}
    </>
  );
}

// The answer's notes, all that the command line prints too. The tokens and the parts of a text have a place of their own.
function Notes({ answer }: { answer: Answer }) {
  const texts = Object.entries(answer.notes)
    .filter(([kind, text]) => text && kind !== "tokens" && !(kind === "understood" && answer.query.parts))
    .map(([kind, text]) => [kind, sentence(text!)] as const);
  return texts.length === 0 ? null : (
    <ul class="notes" aria-label="Notes on this answer">
      {texts.map(([kind, text]) => <li key={kind}>{text}</li>)}
    </ul>
  );
}

// Words to begin with: short captions of what is there.
function suggestionsOf(pictures: Picture[]): string[] {
  const found: string[] = [];
  for (const { caption } of pictures) {
    const words = caption.split(/[,;.]/)[0]!.trim();
    if (words.length < 4 || words.length > 26 || /\d/.test(words) || found.includes(words)) continue;
    found.push(words);
  }
  const step = Math.max(1, Math.floor(found.length / 5));
  return found.filter((_, i) => i % step === 0).slice(0, 5);
}

export function App() {
  const [asked, change] = useAddress();
  const [theme, nextTheme] = useTheme();
  const [collections, setCollections] = useState<CollectionInfo[] | null>(null);
  const [models, setModels] = useState<ModelInfo[] | null>(null);
  const [facets, setFacets] = useState<Facet[]>([]);
  const [startError, setStartError] = useState<ApiError | null>(null);
  const [started, setStarted] = useState(0);
  const [unfolded, setUnfolded] = useState<Set<number>>(new Set());
  const [dropping, setDropping] = useState(false);
  const [notice, setNotice] = useState<string | null>(null);
  const field = useRef<HTMLInputElement>(null);

  // What there is, and whether it grows.
  useEffect(() => {
    let ended = false;
    let modelsKnown = false;
    const look = async (first: boolean) => {
      try {
        const found = await api.collections();
        if (ended) return;
        setCollections(found);
        setStartError(null);
        if (modelsKnown) return;
        const served = await api.models();
        if (ended) return;
        modelsKnown = true;
        setModels(served);
      } catch (failure) {
        if (!ended && first) setStartError(failure as ApiError);
      }
    };
    void look(true);
    const timer = setInterval(() => {
      if (document.visibilityState === "visible") void look(false);
    }, lookMs);
    return () => {
      ended = true;
      clearInterval(timer);
    };
  }, [started]);

  // An address that names no collection means the first; one that names an unknown collection is an error.
  const collection = (asked.collection ? collections?.find((one) => one.name === asked.collection) : collections?.[0]) ?? null;
  const name = collection?.name ?? "";
  const model = models?.find((one) => one.name === collection?.model);
  // A second model that is served no longer, as in a bookmark, looks at nothing.
  const seconds = secondsOf(models ?? [], collection);
  const state = !models || asked.second === "" || seconds.includes(asked.second) ? asked : { ...asked, second: "" };
  const [facetsOf, setFacetsOf] = useState("");
  useEffect(() => {
    if (!name) return;
    const control = new AbortController();
    api
      .facets(name, control.signal)
      .then(setFacets, () => setFacets([]))
      .finally(() => setFacetsOf(name));
    return () => control.abort();
  }, [name, collection?.items]);

  const filter = filterOf(state, facets);
  const ready = name !== "" && (models !== null || asked.second === "") && (state.chosen.length === 0 || facetsOf === name);
  const [changed, setChanged] = useState(0); // times that this page changed the collection
  const changes = useChanges(name, collections !== null, () => {
    setChanged((n) => n + 1);
    setStarted((n) => n + 1);
  });
  const { results, loading, error, loadMore, retry } = useResults(state, name, filter, collection?.composer ?? false, ready, changed);
  useEffect(() => setUnfolded(new Set()), [results?.key]);

  const searching = isSearch(state);
  const answer = results?.answer ?? null;
  const pictures = results?.pictures ?? [];
  const filterError = error instanceof ApiError && error.status === 400 && state.filter && /filter/.test(error.message) ? error.message : null;

  const shownIds = useMemo(() => {
    const ids: number[] = [];
    for (const picture of pictures) {
      ids.push(picture.id);
      if (unfolded.has(picture.id) && "near_duplicates" in picture) ids.push(...picture.near_duplicates.map((copy) => copy.id));
    }
    return ids;
  }, [pictures, unfolded]);

  // --- what a reader does ---

  const focusField = () => {
    field.current?.focus();
    field.current?.select();
  };
  const search = (part: Partial<State>) => {
    change({ text: "", like: 0, image: "", weight: initial.weight, byDate: false, open: 0, whole: false, ...part });
    scrollTo({ top: 0 });
  };
  const take = useCallback((file: File) => {
    takeImage(file).then(
      (image) => {
        setNotice(null);
        change({ image, like: 0, text: "", weight: initial.weight, open: 0 });
        scrollTo({ top: 0 });
      },
      (failure) => setNotice((failure as Error).message),
    );
  }, []);
  const close = () => {
    // Back to where the picture was opened from, so that going back leads further back.
    if (typeof history.state?.from === "string" && history.state.from === addressOf({ ...state, open: 0 })) history.back();
    else change({ open: 0 });
  };
  const go = (id: number) => {
    const next = { ...state, open: id };
    history.replaceState(history.state, "", addressOf(next));
    dispatchEvent(new PopStateEvent("popstate"));
  };
  const actions: GridActions = {
    open: (id) => change({ open: id }),
    like: (id) => search({ like: id }),
    but: (id) => {
      search({ like: id });
      focusField();
    },
    unfold: (id) => setUnfolded((old) => new Set(old).add(id)),
    addressOf: (id) => addressOf({ ...state, open: id }),
  };

  // The picture that was shown large is where the keyboard goes on.
  const lastOpen = useRef(0);
  useEffect(() => {
    if (state.open === 0 && lastOpen.current !== 0) {
      document.querySelector<HTMLElement>(`.tile-link[data-id="${lastOpen.current}"]`)?.focus();
    }
    lastOpen.current = state.open;
  }, [state.open]);

  useEffect(() => {
    const keys = (event: KeyboardEvent) => {
      const typing = event.target instanceof HTMLInputElement || document.querySelector("dialog[open]");
      if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
        event.preventDefault();
        focusField();
      }
    };
    const paste = (event: ClipboardEvent) => {
      const file = pictureIn(event.clipboardData);
      if (!file) return;
      event.preventDefault();
      take(file);
    };
    let depth = 0;
    const enter = (event: DragEvent) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      if (event.type === "dragenter") setDropping(++depth > 0);
    };
    const leave = () => setDropping((depth = Math.max(0, depth - 1)) > 0);
    const drop = (event: DragEvent) => {
      depth = 0;
      setDropping(false);
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      const file = pictureIn(event.dataTransfer);
      if (file) take(file);
      else setNotice("That is no picture.");
    };
    addEventListener("keydown", keys);
    addEventListener("paste", paste);
    addEventListener("dragenter", enter);
    addEventListener("dragover", enter);
    addEventListener("dragleave", leave);
    addEventListener("drop", drop);
    return () => {
      removeEventListener("keydown", keys);
      removeEventListener("paste", paste);
      removeEventListener("dragenter", enter);
      removeEventListener("dragover", enter);
      removeEventListener("dragleave", leave);
      removeEventListener("drop", drop);
    };
  }, []);

  useEffect(() => {
    const what = state.text.trim() || (state.like || state.image ? "Like a picture" : "");
    document.title = [what, name || "Saccade"].filter(Boolean).join(" · ");
  }, [state.text, state.like, state.image, name]);

  // --- what is drawn ---

  if (startError) {
    if (startError.status === 401) return <KeyForm onKey={() => setStarted((n) => n + 1)} />;
    return (
      <main class="notice">
        <h1>{startError.status === 0 ? "Nobody answers" : "That did not work"}</h1>
        <p>{startError.message}</p>
        <button type="button" class="main" onClick={() => setStarted((n) => n + 1)}>Try again</button>
      </main>
    );
  }
  if (collections && !collection && state.collection) {
    return (
      <main class="notice">
        <h1>{`No collection “${state.collection}”`}</h1>
        <p>{collections.length > 0 ? "This server has other collections:" : "This server has no collection open."}</p>
        <p class="choices">
          {collections.map((one) => (
            <button key={one.name} type="button" class="chip" onClick={() => change({ ...state, collection: one.name, like: 0, open: 0 })}>{one.name}</button>
          ))}
        </p>
      </main>
    );
  }
  if (collections && !collection) {
    return (
      <main class="notice">
        <h1>No collection</h1>
        <p>This server has no collection open. Start it with one: <code>saccade serve -c FOLDER</code></p>
      </main>
    );
  }

  const reference = state.like
    ? `/api/collections/${encodeURIComponent(name)}/images/${state.like}/thumbnail?size=128`
    : state.image
      ? imageOf(state.image)
      : null;
  const composed = reference !== null && state.text.trim() !== "";
  const there = answer?.matching?.tells ? answer.matching.there : null;
  const nothing = there !== null && there < possibleAt && pictures.length > 0;
  const referenceGone = error instanceof ApiError && error.status === 404 && state.like !== 0;
  const place = shownIds.indexOf(state.open);
  const known = pictures.find((one) => one.id === state.open) ??
    pictures.flatMap((one) => ("near_duplicates" in one ? one.near_duplicates : [])).find((one) => one.id === state.open) ?? null;

  let status = "";
  if (results && !loading) {
    if (!answer) status = results.total ? counted(results.total, "picture") : "";
    else if (pictures.length === 0) status = "Nothing found";
    else {
      const again = answer.rerank ? `, the best ${count(answer.rerank.reranked)} looked at again by ${answer.rerank.checkpoint},` : "";
      status = `${counted(answer.searched, "picture")} searched${again} in ${duration(answer.seconds)}`;
      if (state.byDate) status = `The ${count(Math.min(datedHits, pictures.length))} best of ${status}, newest first`;
    }
  }
  const dropped = answer?.tokens?.dropped ?? 0;

  return (
    <>
      <a class="skip" href="#results">Skip to the pictures</a>
      <header class="top">
        <div class="bar">
          <a class="home" href="/" aria-label="Saccade: all pictures" onClick={(event) => {
            event.preventDefault();
            search({ chosen: [], filter: "" });
          }}>
            <Mark />
            <span class="wordmark">Saccade</span>
          </a>
          <SearchField
            inputRef={field}
            text={state.text}
            picture={reference}
            pictureName={state.like ? "the picture of the collection" : "your picture"}
            busy={loading}
            onText={(text) => change({ text, open: 0, ...(text.trim() === "" ? { whole: false } : {}) }, true)}
            onEnter={() => change({})}
            onPicture={take}
            onNoPicture={() => {
              change({ like: 0, image: "", weight: initial.weight });
              field.current?.focus();
            }}
          />
          <div class="tools">
            {collections && collections.length > 1 && (
              <label class="select">
                <span class="unseen">Collection</span>
                <select value={name} onChange={(event) => change({ ...initial, text: state.text, image: state.image, collection: event.currentTarget.value })}>
                  {collections.map((one) => (
                    <option key={one.name} value={one.name}>{one.name}</option>
                  ))}
                </select>
              </label>
            )}
            <button type="button" class="plain" onClick={nextTheme} title={`Colours: ${theme}`} aria-label={`Colours: ${theme}. Change`}>
              {theme === "auto" ? <AutoIcon /> : theme === "light" ? <SunIcon /> : <MoonIcon />}
            </button>
          </div>
        </div>
        <div class={`progress ${loading ? "on" : ""}`} aria-hidden="true" />
      </header>
      <main>
        <Filters state={state} facets={facets} error={filterError} searching={searching} tells={answer?.matching?.tells ?? false}
          folds={pictures.some((picture) => "near_duplicates" in picture && picture.near_duplicates.length > 0)}
          seconds={seconds}
          named={state.text.trim() !== "" && reference === null && ((collection?.captions ?? 0) > 0 || answer?.keywords != null)}
          change={(part) => change(part)}>
          {!searching && <ChangeTools changes={changes} />}
        </Filters>
        <ChangeNews changes={changes} />
        {composed && !referenceGone && (
          <label class="balance">
            <span>The picture</span>
            <input type="range" min="0.1" max="0.9" step="0.1" value={state.weight} aria-label="Balance of picture and words"
              onInput={(event) => change({ weight: Number(event.currentTarget.value) }, true)} />
            <span>The words</span>
          </label>
        )}
        {(searching || !collection) && (
          <h1 class="unseen">{state.text.trim() ? `Pictures for: ${state.text.trim()}` : searching ? "Pictures like this one" : "Saccade"}</h1>
        )}
        {!searching && collection && (
          <div class="welcome">
            <h1>{name}</h1>
            {results && !results.answer && results.pictures.length > 0 && suggestionsOf(results.pictures).length > 1 && (
              <p class="suggestions">
                <span class="dim">Try</span>
                {suggestionsOf(results.pictures).map((words) => (
                  <button key={words} type="button" class="chip" onClick={() => search({ text: words })}>{words}</button>
                ))}
              </p>
            )}
          </div>
        )}
        <p class="status" role="status" aria-live="polite">{status}</p>
        <Warnings texts={collection?.warnings ?? []} />
        {notice && (
          <p class="banner wrong" role="alert">
            {notice}
            <button type="button" class="link" onClick={() => setNotice(null)}>Close</button>
          </p>
        )}
        {dropped > 0 && answer?.tokens && (
          <p class="banner">
            {`Of these ${answer.tokens.used + dropped} tokens the model read the first ${answer.tokens.used}.`}
            <button type="button" class="link" onClick={() => change({ whole: true })}>Read all of it, in parts</button>
          </p>
        )}
        {state.whole && answer?.tokens && dropped === 0 && (
          <p class="banner">
            {`All ${answer.tokens.used} tokens read, in ${counted(answer.tokens.chunks, "part")}.`}
            <button type="button" class="link" onClick={() => change({ whole: false })}>Only the beginning</button>
          </p>
        )}
        {searching && state.second !== asked.second && (
          <p class="banner">
            {`There is no model “${asked.second}” here to take a second look.`}
            <button type="button" class="link" onClick={() => change({ second: "" })}>Close</button>
          </p>
        )}
        {answer?.query.parts && <Parts parts={answer.query.parts} said={answer.notes.understood ?? null} />}
        {(answer?.warnings ?? []).map((text) => <p key={text} class="banner">{sentence(text)}</p>)}
        {answer && pictures.length > 0 && <Notes answer={answer} />}
        {nothing && !error && (
          <p class="banner nothing">
            <strong>Probably nothing here matches.</strong>
            {" These are the closest."}
          </p>
        )}
        <section id="results" class={loading ? "waiting" : ""} aria-busy={loading} aria-label="Pictures" tabIndex={-1}>
          {error && referenceGone ? (
            <div class="notice">
              <h2>That picture is gone</h2>
              <p role="alert">The collection no longer has the picture to search with.</p>
              <button type="button" class="main" onClick={() => change({ like: 0, weight: initial.weight })}>
                {state.text.trim() ? "Search by the words alone" : "Show all pictures"}
              </button>
            </div>
          ) : error && !filterError ? (
            <div class="notice">
              <h2>{error instanceof ApiError && error.status === 0 ? "Nobody answers" : "That did not work"}</h2>
              <p role="alert">{error.message}</p>
              <button type="button" class="main" onClick={retry}>Try again</button>
            </div>
          ) : filterError ? (
            <div class="notice">
              <h2>The filter cannot be read</h2>
              <p role="alert">{filterError}</p>
              <button type="button" class="main" onClick={() => change({ filter: "" })}>Take it away</button>
            </div>
          ) : !results ? (
            <Skeleton />
          ) : pictures.length === 0 && !loading ? (
            <div class="notice">
              <h2>{filter || state.likely ? "Nothing is left" : searching ? "Nothing found" : "No pictures yet"}</h2>
              <p>
                {filter
                  ? `No picture passes these filters${results.nothing ? `: ${results.nothing}` : "."}`
                  : state.likely
                    ? sentence(answer?.notes.matching ?? "no picture is likely to be right")
                    : searching ? "The collection has no picture to compare with." : `Fill it with: saccade index -c ${name} FOLDER`}
              </p>
              {(filter || state.likely) && (
                <button type="button" class="main" onClick={() => change({ chosen: [], filter: "", likely: false })}>Show all</button>
              )}
            </div>
          ) : (
            <Grid pictures={pictures} unfolded={unfolded} byLikelihood={answer?.matching?.tells === true && !state.byDate}
              more={results.more} loadMore={loadMore} actions={actions}
              label={searching ? "Hits, best first" : "Pictures, newest first"} />
          )}
        </section>
      </main>
      {state.open !== 0 && name && (
        <Viewer key="viewer" state={state} collection={name} composer={collection?.composer ?? false} id={state.open} known={known} isHit={searching} explains={model?.explains ?? false}
          previous={place > 0 ? shownIds[place - 1]! : 0}
          next={place >= 0 && place + 1 < shownIds.length ? shownIds[place + 1]! : 0}
          go={go} close={close}
          like={(id) => search({ like: id })}
          but={(id, text) => search({ like: id, text })}
          remove={changes.list.takes_images ? (id) => changes.remove(id, () => change({ open: 0 })) : null} />
      )}
      {dropping && (
        <div class="drop" aria-hidden="true">
          <p>Drop a picture to find what is like it</p>
        </div>
      )}
    </>
  );
}
