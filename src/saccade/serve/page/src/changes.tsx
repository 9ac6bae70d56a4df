// What changes a collection: folders that the server may index, with the progress of it, and pictures that are added.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { ApiError, type Job, type JobList, api } from "./api";
import { AddIcon, IndexIcon } from "./icons";
import { count, counted } from "./text";

const nobody: JobList = { folders: [], takes_images: false, jobs: [] };
const goesOn = (job: Job) => job.state === "waiting" || job.state === "running";

export interface Changes {
  list: JobList;
  running: Job | null; // of this collection
  last: string | null; // what came of the last job or picture, in a sentence
  error: string | null;
  start: (folder: string) => void;
  cancel: (id: number) => void;
  add: (files: File[]) => void;
  adding: { done: number; total: number } | null;
  remove: (id: number, then: () => void) => void;
  forget: () => void;
}

function saidOf(job: Job): string {
  if (job.state === "failed") return `Indexing ${job.folder} failed: ${job.error}`;
  if (job.state === "cancelled") return `Indexing ${job.folder} was stopped; what was taken in stays.`;
  const added = job.report?.added ?? 0;
  const failed = job.report?.failed?.length ?? 0;
  const more = failed > 0 ? `, ${counted(failed, "file")} could not be read` : "";
  return added > 0 ? `${counted(added, "picture")} added from ${job.folder}${more}.` : `Nothing new in ${job.folder}${more}.`;
}

// `changed` is called where the collection has other pictures than before.
export function useChanges(collection: string, ready: boolean, changed: () => void): Changes {
  const [list, setList] = useState<JobList>(nobody);
  const [last, setLast] = useState<string | null>(null);
  const [error, setError] = useState<string | null>(null);
  const [adding, setAdding] = useState<{ done: number; total: number } | null>(null);
  const failed = (failure: unknown) => setError((failure as Error).message);

  const look = useCallback(() => {
    api.jobs().then(setList, (failure) => {
      if (!(failure instanceof ApiError && failure.status === 401)) setList(nobody);
    });
  }, []);
  useEffect(() => {
    if (!ready) return;
    look();
    const timer = setInterval(() => {
      if (document.visibilityState === "visible") look();
    }, 10_000);
    return () => clearInterval(timer);
  }, [ready, look]);

  const running = list.jobs.find((job) => goesOn(job) && job.collection === collection) ?? null;
  const id = running?.id ?? 0;
  useEffect(() => {
    if (id === 0) return;
    const events = new EventSource(`/api/jobs/${id}/events`);
    events.addEventListener("job", (event) => {
      const job = JSON.parse((event as MessageEvent<string>).data) as Job;
      setList((old) => ({ ...old, jobs: old.jobs.map((one) => (one.id === job.id ? job : one)) }));
      if (goesOn(job)) return;
      events.close();
      setLast(saidOf(job));
      changed();
    });
    // The list is looked at in any case: a stream that breaks off is no loss.
    events.onerror = () => events.close();
    return () => events.close();
  }, [id]);

  const keep = (job: Job) => setList((old) => ({ ...old, jobs: [job, ...old.jobs.filter((one) => one.id !== job.id)] }));
  return {
    list,
    running,
    last,
    error,
    adding,
    forget: () => {
      setLast(null);
      setError(null);
    },
    start: (folder) => {
      setLast(null);
      setError(null);
      api.startJob(collection, folder).then(keep, failed);
    },
    cancel: (job) => {
      api.cancelJob(job).then(keep, failed);
    },
    remove: (picture, then) => {
      setLast(null);
      setError(null);
      api.removePicture(collection, picture).then(() => {
        setLast("The picture is out of the collection, and stays out.");
        then();
        changed();
      }, failed);
    },
    add: (files) => {
      setLast(null);
      setError(null);
      const send = async () => {
        const wrong: string[] = [];
        for (const [done, file] of files.entries()) {
          setAdding({ done, total: files.length });
          try {
            await api.addPicture(collection, file);
          } catch (failure) {
            wrong.push(`${file.name}: ${(failure as Error).message}`);
          }
        }
        setAdding(null);
        if (wrong.length > 0) setError(wrong.join(" "));
        if (wrong.length < files.length) setLast(`${counted(files.length - wrong.length, "picture")} added.`);
        changed();
      };
      void send();
    },
  };
}

// Chips among the others; nothing where nothing can be changed.
export function ChangeTools({ changes }: { changes: Changes }) {
  const file = useRef<HTMLInputElement>(null);
  const { list, running, adding } = changes;
  return (
    <>
      {list.folders.map((folder) => (
        <button key={folder} type="button" class="chip" disabled={running !== null} title={`Take in what is new in ${folder}`}
          onClick={() => changes.start(folder)}>
          <IndexIcon />
          {`Index ${folder}`}
        </button>
      ))}
      {list.takes_images && (
        <>
          <button type="button" class="chip" disabled={adding !== null} onClick={() => file.current?.click()}>
            <AddIcon />
            Add pictures
          </button>
          <input
            ref={file}
            type="file"
            accept="image/*"
            multiple
            class="hidden"
            tabIndex={-1}
            aria-label="Pictures to add"
            onChange={(event) => {
              const files = [...(event.currentTarget.files ?? [])];
              if (files.length > 0) changes.add(files);
              event.currentTarget.value = "";
            }}
          />
        </>
      )}
    </>
  );
}

export function ChangeNews({ changes }: { changes: Changes }) {
  const { running, adding, last, error } = changes;
  const text = running
    ? running.state === "waiting"
      ? `Indexing ${running.folder} waits for its turn`
      : running.total > 0
        ? `Indexing ${running.folder}: ${count(running.done)} of ${counted(running.total, "file")}`
        : `Indexing ${running.folder} …`
    : adding
      ? `Adding picture ${adding.done + 1} of ${adding.total}`
      : null;
  const done = running ? running.done : (adding?.done ?? 0);
  const total = running ? running.total : (adding?.total ?? 0);
  return (
    <div class="changes" role="status" aria-live="polite">
      {text && (
        <div class="banner news">
          <span>{text}</span>
          <progress aria-label={text} {...(total > 0 ? { value: done, max: total } : {})} />
          {running && <button type="button" class="link" onClick={() => changes.cancel(running.id)}>Stop</button>}
        </div>
      )}
      {!text && (error ?? last) && (
        <p class={`banner ${error ? "wrong" : "quiet"}`}>
          {[error, last].filter(Boolean).join(" ")}
          <button type="button" class="link" onClick={changes.forget}>Close</button>
        </p>
      )}
    </div>
  );
}
