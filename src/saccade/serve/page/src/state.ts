// What is searched for and shown, as the page's address says it: every state can be linked to and gone back to.
import type { CollectionInfo, Facet, ModelInfo, SearchBody } from "./api";

export interface State {
  collection: string; // "": the first
  text: string;
  like: number; // a picture's id; 0: none
  image: string; // a picture of the reader's own, by its name in `images`; "": none
  weight: number; // of the words beside a picture, 0 to 1
  chosen: string[]; // filters of facets
  filter: string; // in the filter language
  names: number; // how much what pictures are called counts beside what they show, 0 to 1
  byDate: boolean;
  fold: boolean;
  likely: boolean; // only what is likely to be right
  whole: boolean; // a long text in parts, to its end
  second: string; // model that looks at the best hits again; "": none
  open: number; // the picture shown large; 0: none
}

export const initial: State = {
  collection: "",
  text: "",
  like: 0,
  image: "",
  weight: 0.5,
  chosen: [],
  filter: "",
  names: 0.5, // the server's own
  byDate: false,
  fold: true,
  likely: false,
  whole: false,
  second: "",
  open: 0,
};

const number = (text: string | null) => {
  const value = Number(text ?? 0);
  return Number.isSafeInteger(value) && value > 0 ? value : 0;
};

const share = (text: string | null, otherwise: number) => {
  const value = Number(text ?? otherwise);
  return value >= 0 && value <= 1 ? value : otherwise;
};

export function stateOf(address: string): State {
  const query = new URLSearchParams(address);
  const weight = share(query.get("w"), initial.weight);
  const second = query.get("second") ?? "";
  return {
    collection: query.get("c") ?? "",
    text: query.get("q") ?? "",
    like: number(query.get("like")),
    image: query.get("image") ?? "",
    weight,
    chosen: query.getAll("f"),
    filter: query.get("filter") ?? "",
    names: share(query.get("names"), initial.names),
    byDate: query.get("sort") === "date" && second === "",
    fold: query.get("fold") !== "no",
    likely: query.get("likely") === "yes" && second === "",
    whole: query.get("long") === "whole",
    second,
    open: number(query.get("open")),
  };
}

export function addressOf(state: State): string {
  const query = new URLSearchParams();
  if (state.collection) query.set("c", state.collection);
  if (state.text) query.set("q", state.text);
  if (state.like) query.set("like", String(state.like));
  if (state.image) query.set("image", state.image);
  if (state.weight !== initial.weight) query.set("w", String(state.weight));
  for (const filter of state.chosen) query.append("f", filter);
  if (state.filter) query.set("filter", state.filter);
  if (state.names !== initial.names) query.set("names", String(state.names));
  if (state.byDate) query.set("sort", "date");
  if (!state.fold) query.set("fold", "no");
  if (state.likely) query.set("likely", "yes");
  if (state.whole) query.set("long", "whole");
  if (state.second) query.set("second", state.second);
  if (state.open) query.set("open", String(state.open));
  const text = query.toString();
  return text ? `?${text}` : "/";
}

// Models that may look at the hits of a collection again: others than its own, or its own if that judges pairs too.
export const secondsOf = (models: ModelInfo[], collection: CollectionInfo | null): string[] =>
  models
    .filter((one) => one.reads_texts && one.reads_images && (one.name !== collection?.model || one.pair_scorer))
    .map((one) => one.name);

export const isSearch = (state: State) => state.text.trim() !== "" || state.like !== 0 || state.image !== "";

// Values of one facet are alternatives; facets, and the filter that was typed, all hold.
export function filterOf(state: State, facets: Facet[]): string {
  const groups = new Map<string, string[]>();
  for (const filter of state.chosen) {
    const facet = facets.find((one) => one.values.some((value) => value.filter === filter));
    const name = facet?.name ?? filter;
    groups.set(name, [...(groups.get(name) ?? []), filter]);
  }
  const parts = [...groups.values()].map((filters) => filters.map((filter) => `(${filter})`).join(" or "));
  if (state.filter.trim()) parts.push(state.filter.trim());
  return parts.length === 1 ? parts[0]! : parts.map((part) => `(${part})`).join(" and ");
}

// Hits a request; more follow as the reader scrolls, as far as the server goes.
export const pageSize = 60;
export const mostHits = 1000;
// By date the best matches are put in order all at once.
export const datedHits = 240;
// A second look is a pass of its model for each of these.
export const secondHits = 32;
// Hits less likely than this are below the line.
export const likelyAt = 0.5;
// Below this a match is weak: "likely only" leaves it out, and where the best one is weak the page says so.
export const possibleAt = 0.2;

export function bodyOf(state: State, image: string | null, filter: string, offset: number, composer: boolean): SearchBody {
  const body: SearchBody = {
    k: state.byDate ? datedHits : Math.min(pageSize, mostHits - offset),
    offset,
    group_duplicates: state.fold,
    order: state.byDate ? "date" : "score",
  };
  if (state.text.trim()) body.text = state.text;
  if (state.like) body.like = state.like;
  if (image) body.image = image;
  if (filter) body.filter = filter;
  if (state.likely) body.min_probability = possibleAt;
  if (state.names !== initial.names) body.keyword_weight = state.names;
  if (state.whole) body.chunk_long_text = true;
  // Hits further down have the same ranks without it.
  if (state.second && offset === 0) {
    body.rerank = state.second;
    body.rerank_depth = secondHits;
  }
  // The collection's composer was trained for it; who moves the balance asks for another way.
  if (body.text && (body.like || body.image) && !(composer && state.weight === initial.weight)) {
    body.compose = "slerp";
    body.text_weight = state.weight;
  }
  return body;
}
