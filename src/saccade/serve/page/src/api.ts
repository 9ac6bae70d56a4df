// What the server says and is asked: the shapes of docs/serve.md.

export interface Picture {
  id: number;
  path: string;
  second: number | null; // of a video's frame, where in the video
  date: number | null; // of the file, seconds since 1970
  caption: string;
  width: number;
  height: number;
  format: string;
  file_here: boolean; // false: it was imported without its file
  file: string; // paths on this server
  thumbnail: string;
}

export interface NearDuplicate extends Picture {
  score: number;
  same_bytes: boolean;
}

export interface Hit extends Picture {
  rank: number;
  score: number | null;
  match: "strong match" | "likely" | "possible" | "weak match" | null; // by the probability behind it
  match_probability: { right: number | null } | null;
  near_duplicates: NearDuplicate[];
  keywords: { all: boolean; matches: { term: string; in: string[] }[] } | null; // what it is called matches too
  reranked?: boolean; // after a second look: the second model scored it
  explanations?: Explanation[];
}

export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Explanation {
  model: string;
  score_by: string;
  score: number | null;
  words: { word: string; begin: number; end: number; drop: number }[];
  method: string;
  map: { rows: number; columns: number; values: number[]; box: Box | null } | null;
  no_map: string | null;
}

// A part of the text, as it was understood: below 0 is what is not wanted.
export interface Part {
  text?: string;
  image?: string;
  weight: number;
}

export interface Job {
  id: number;
  collection: string;
  folder: string;
  state: "waiting" | "running" | "done" | "cancelled" | "failed";
  done: number;
  total: number; // 0: not known yet
  error: string | null;
  report: { added: number; failed?: unknown[] } | null;
}

export interface JobList {
  folders: string[]; // that may be indexed
  takes_images: boolean;
  jobs: Job[]; // newest first
}

export interface Answer {
  collection: string;
  searched: number;
  query: { parts?: Part[] };
  keywords: { weight: number } | null; // where what pictures are called counted too
  tokens: { used: number; dropped: number; chunks: number } | null;
  matching: { tells: boolean; there: number | null; best: number | null } | null;
  rerank: { checkpoint: string; reranked: number } | null; // the second model, and how many hits it scored
  warnings: string[];
  notes: Record<string, string | null>; // sentences for people, by what they are about
  hits: Hit[];
  seconds: number;
}

export interface PictureList {
  total: number;
  nothing: string | null; // why the filter leaves no picture
  images: Picture[];
}

export interface PictureFacts extends Picture {
  bytes: number | null; // null: not known
  modified: number | null;
  added: number;
  hash: string;
  dated_by: "taken" | "file"; // which date filters and orders go by
  metadata: { taken?: string }; // "2024-05-31T23:30:59", by the clock on the wall there
}

export interface Facet {
  name: string;
  values: { name: string; filter: string; items: number }[];
}

export interface CollectionInfo {
  name: string;
  model: string;
  items: number;
  captions: number;
  warnings: string[];
  composer: boolean; // whether a trained composer makes queries of a picture and words
}

export interface ModelInfo {
  name: string;
  reads_texts: boolean;
  reads_images: boolean;
  pair_scorer: boolean; // judges pairs of a picture and a text
  explains: boolean;
}

export class ApiError extends Error {
  constructor(
    readonly status: number, // 0: nobody answered
    message: string,
    readonly retryAfter: number | null = null,
  ) {
    super(message);
  }
}

export function wasAborted(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

async function ask<T>(path: string, init: RequestInit = {}): Promise<T> {
  let response: Response;
  try {
    response = await fetch(path, init);
  } catch (error) {
    if (wasAborted(error)) throw error;
    throw new ApiError(0, "The server does not answer. Is it running?");
  }
  const json = await response.json().catch((error) => {
    if (wasAborted(error)) throw error;
    return null;
  });
  if (response.ok && (json !== null || response.status === 204)) return json as T;
  // Such as the page of a proxy that asks for a password.
  if (response.ok) throw new ApiError(response.status, "Something else than Saccade answered. Is there a proxy before the server?");
  const retry = Number(response.headers.get("retry-after"));
  throw new ApiError(
    response.status,
    json?.error?.message ?? `The server answered ${response.status}.`,
    retry > 0 ? retry : null,
  );
}

export interface SearchBody {
  text?: string;
  image?: string;
  like?: number;
  k: number;
  offset?: number;
  filter?: string;
  group_duplicates?: boolean;
  chunk_long_text?: boolean;
  order?: "score" | "date";
  min_probability?: number;
  compose?: string;
  text_weight?: number;
  explain?: boolean;
  keyword_weight?: number;
  rerank?: string;
  rerank_depth?: number;
}

const base = (collection: string) => `/api/collections/${encodeURIComponent(collection)}`;

export const api = {
  collections: (signal?: AbortSignal) =>
    ask<{ collections: CollectionInfo[] }>("/api/collections", { signal }).then((json) => json.collections),
  models: () => ask<{ models: ModelInfo[] }>("/api/models").then((json) => json.models),
  facets: (collection: string, signal?: AbortSignal) =>
    ask<{ facets: Facet[] }>(`${base(collection)}/facets`, { signal }).then((json) => json.facets),
  search: (collection: string, body: SearchBody, signal?: AbortSignal) =>
    ask<Answer>(`${base(collection)}/search`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
      signal,
    }),
  pictures: (collection: string, offset: number, k: number, filter: string, signal?: AbortSignal) => {
    const query = new URLSearchParams({ offset: String(offset), k: String(k) });
    if (filter) query.set("filter", filter);
    return ask<PictureList>(`${base(collection)}/images?${query}`, { signal });
  },
  picture: (collection: string, id: number, signal?: AbortSignal) =>
    ask<PictureFacts>(`${base(collection)}/images/${id}`, { signal }),
  jobs: () => ask<JobList>("/api/jobs"),
  startJob: (collection: string, folder: string) =>
    ask<Job>(`${base(collection)}/jobs`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ folder }),
    }),
  cancelJob: (id: number) => ask<Job>(`/api/jobs/${id}`, { method: "DELETE" }),
  addPicture: (collection: string, file: File) => {
    const form = new FormData();
    form.set("image", file);
    return ask<PictureFacts>(`${base(collection)}/images`, { method: "POST", body: form });
  },
  removePicture: (collection: string, id: number) =>
    ask<null>(`${base(collection)}/images/${id}`, { method: "DELETE" }),
  openSession: (key: string) =>
    ask<unknown>("/api/session", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ key }),
    }),
};
