// What stands in the grid: pages of hits, or of the newest pictures where nothing is searched for.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { ApiError, type Answer, type Hit, type Picture, api, wasAborted } from "./api";
import { imageOf } from "./images";
import { type State, bodyOf, isSearch, mostHits, pageSize } from "./state";

export interface Results {
  key: string; // of the question: another one, another grid
  answer: Answer | null; // the first page's; null for the newest pictures
  pictures: (Picture | Hit)[];
  total: number; // newest pictures; 0 for a search
  nothing: string | null; // why a filter leaves none
  more: boolean;
}

export interface Found {
  results: Results | null; // of the last question that was answered
  loading: boolean;
  error: Error | null;
  loadMore: () => void;
  retry: () => void;
}

const typingMs = 160;
const typingForSecondMs = 600; // a second look takes longer than a letter

function questionOf(state: State, collection: string, filter: string): string {
  const { text, like, image, weight, names, byDate, fold, likely, whole, second } = state;
  return isSearch(state)
    ? JSON.stringify([collection, filter, text.trim(), like, image, weight, names, byDate, fold, likely, whole, second])
    : JSON.stringify([collection, filter]);
}

async function read(
  state: State,
  collection: string,
  filter: string,
  offset: number,
  composer: boolean,
  signal: AbortSignal,
): Promise<Omit<Results, "key">> {
  if (!isSearch(state)) {
    const list = await api.pictures(collection, offset, pageSize, filter, signal);
    const more = offset + list.images.length < list.total;
    return { answer: null, pictures: list.images, total: list.total, nothing: list.nothing, more };
  }
  const image = state.image ? imageOf(state.image) : null;
  if (state.image && !image) {
    throw new ApiError(410, "This picture was in another tab, or the page was closed since: bring it again.");
  }
  const answer = await api.search(collection, bodyOf(state, image, filter, offset, composer), signal);
  const reached = offset + answer.hits.length;
  const more = !state.byDate && answer.hits.length > 0 && reached < mostHits && answer.hits.length === pageSize;
  return { answer, pictures: answer.hits, total: 0, nothing: answer.notes.filter ?? null, more };
}

export function useResults(state: State, collection: string, filter: string, composer: boolean, ready: boolean, changes: number): Found {
  const [results, setResults] = useState<Results | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [attempt, setAttempt] = useState(0);
  const key = questionOf(state, collection, filter);
  // What was asked and answered last. Until that is what stands in the field, the page is at work: from the very
  // letter on, not only from when the server is asked.
  const asking = `${key} ${attempt} ${changes}`;
  const [settled, setSettled] = useState("");
  const more = useRef<AbortController | null>(null);
  const asked = useRef("");

  useEffect(() => {
    if (!ready || !collection) return;
    const control = new AbortController();
    more.current?.abort();
    more.current = null;
    const run = async () => {
      try {
        const page = await read(state, collection, filter, 0, composer, control.signal);
        setResults({ key, ...page });
        setError(null);
        setSettled(asking);
      } catch (failure) {
        if (wasAborted(failure)) return;
        const later = failure instanceof ApiError ? failure.retryAfter : null;
        if (later !== null && later <= 5) {
          timer = window.setTimeout(() => void run(), later * 1000);
          return;
        }
        setError(failure as Error);
        setSettled(asking);
      }
    };
    // The first question, and one that is no typing, is asked at once.
    const wait = asked.current === "" || results?.key === asked.current ? 0 : state.second ? typingForSecondMs : typingMs;
    asked.current = key;
    let timer = window.setTimeout(() => void run(), wait);
    return () => {
      window.clearTimeout(timer);
      control.abort();
    };
    // `key` says all of the state that the answer depends on.
  }, [key, ready, attempt, changes]);

  const loadMore = useCallback(() => {
    if (!results?.more || results.key !== key || more.current) return;
    const control = new AbortController();
    more.current = control;
    read(state, collection, filter, results.pictures.length, composer, control.signal)
      .then((page) => {
        setResults((old) => {
          if (old?.key !== key) return old;
          // What came in meanwhile moves the others down: none is shown twice.
          const known = new Set(old.pictures.map((picture) => picture.id));
          const fresh = page.pictures.filter((picture) => !known.has(picture.id));
          return { ...old, pictures: [...old.pictures, ...fresh], more: page.more };
        });
      })
      .catch((failure) => {
        if (!wasAborted(failure)) setResults((old) => (old?.key === key ? { ...old, more: false } : old));
      })
      .finally(() => {
        if (more.current === control) more.current = null;
      });
  }, [results, key]);

  return { results, loading: collection !== "" && settled !== asking, error, loadMore, retry: () => setAttempt((n) => n + 1) };
}
