// The server's API for people: /api/openapi.json, by what its operations are about.
import { useEffect, useState } from "preact/hooks";
import { Mark } from "./icons";
import { sentence } from "./text";

interface Schema {
  $ref?: string;
  type?: string | string[];
  description?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  anyOf?: Schema[];
  enum?: string[];
  default?: unknown;
  minimum?: number;
  maximum?: number;
}

type Content = Record<string, { schema?: Schema }>;

interface Operation {
  tags: string[];
  summary: string;
  security?: unknown[];
  parameters?: { name: string; in: string; required?: boolean; description?: string; schema: Schema }[];
  requestBody?: { description?: string; content: Content };
  responses: Record<string, { description: string; content?: Content }>;
}

interface Document {
  info: { title: string; summary: string };
  tags: { name: string; description: string }[];
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, Schema> };
}

const nameOf = (ref: string) => ref.slice(ref.lastIndexOf("/") + 1);

// "integer, 1 or more", "list of Hit", "score or date".
function kindOf(schema: Schema): string {
  if (schema.$ref) return nameOf(schema.$ref);
  if (schema.anyOf) return schema.anyOf.map(kindOf).join(" or ");
  if (schema.enum) return schema.enum.join(" or ");
  const types = Array.isArray(schema.type) ? schema.type : [schema.type ?? "any value"];
  const words = types.map((type) => (type === "array" && schema.items ? `list of ${kindOf(schema.items)}` : type)).join(" or ");
  const { minimum, maximum } = schema;
  if (minimum !== undefined && maximum !== undefined) return `${words}, ${minimum} to ${maximum}`;
  return minimum === undefined ? words : `${words}, ${minimum} or more`;
}

function aboutOf(schema: Schema, description?: string): string {
  const said = description ?? schema.description ?? "";
  const otherwise = schema.default === undefined ? "" : `default ${JSON.stringify(schema.default)}`;
  return [said, otherwise].filter(Boolean).join("; ");
}

interface Row {
  name: string;
  place: string; // of a parameter: "path" or "query"
  required: boolean;
  schema: Schema;
  description?: string | undefined;
}

function Fields({ rows, caption }: { rows: Row[]; caption: string }) {
  return (
    <table class="fields">
      <caption>{caption}</caption>
      <tbody>
        {rows.map((row) => (
          <tr key={row.name}>
            <th scope="row">
              <code>{row.name}</code>
              {row.required && <span class="dim"> required</span>}
            </th>
            <td>
              <span class="kind">{kindOf(row.schema)}</span>
              {row.place === "path" && <span class="dim"> in the path</span>}
              {aboutOf(row.schema, row.description) && <span class="dim">{` · ${aboutOf(row.schema, row.description)}`}</span>}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

const rowsOf = (schema: Schema): Row[] =>
  Object.entries(schema.properties ?? {}).map(([name, part]) => ({ name, place: "", required: schema.required?.includes(name) ?? false, schema: part }));

// The fields of an object, or what else it is. A schema with a name is described once, at the end.
function Shape({ schema, caption }: { schema: Schema; caption: string }) {
  if (schema.$ref) {
    const name = nameOf(schema.$ref);
    return (
      <p class="shape">
        {`${caption}: `}
        <a href={`#schema-${name}`}>{name}</a>
      </p>
    );
  }
  return schema.properties ? <Fields rows={rowsOf(schema)} caption={caption} /> : <p class="shape">{`${caption}: ${kindOf(schema)}`}</p>;
}

function exampleOf(method: string, path: string, operation: Operation): string {
  const address = `${location.origin}${path}`;
  const types = Object.keys(operation.requestBody?.content ?? {});
  const key = operation.security ? "" : " -H 'X-API-Key: KEY'";
  if (types.length === 0) return `curl${method === "get" ? "" : ` -X ${method.toUpperCase()}`}${key} '${address}'`;
  if (!types.includes("application/json")) return `curl${key} -F FIELD=VALUE '${address}'`;
  return `curl${key} -H 'Content-Type: application/json' -d '{...}' '${address}'`;
}

function Route({ path, method, operation }: { path: string; method: string; operation: Operation }) {
  return (
    <details class="route">
      <summary>
        <span class={`method ${method}`}>{method.toUpperCase()}</span>
        <code class="route-path">{path}</code>
        <span class="route-summary">{operation.summary}</span>
      </summary>
      <div class="route-body">
        {operation.security && <p class="dim">Asks for no key.</p>}
        {operation.parameters && (
          <Fields caption="Parameters" rows={operation.parameters.map((one) => ({ name: one.name, place: one.in, required: one.required ?? false, schema: one.schema, description: one.description }))} />
        )}
        {operation.requestBody &&
          Object.entries(operation.requestBody.content).map(([type, { schema }]) => schema && <Shape key={type} schema={schema} caption={`Body, ${type}`} />)}
        {operation.requestBody?.description && <p class="dim">{sentence(operation.requestBody.description)}.</p>}
        {Object.entries(operation.responses).map(([code, { description, content }]) => {
          const caption = `${code === "default" ? "Errors" : code}, ${description}`;
          const first = Object.values(content ?? {})[0]?.schema;
          return first ? <Shape key={code} schema={first} caption={caption} /> : <p key={code} class="shape">{caption}</p>;
        })}
        <pre>
          <code>{exampleOf(method, path, operation)}</code>
        </pre>
      </div>
    </details>
  );
}

export function Docs() {
  const [found, setFound] = useState<Document | null>(null);
  const [failed, setFailed] = useState(false);
  useEffect(() => {
    document.title = "API · Saccade";
    fetch("/api/openapi.json")
      .then((response) => response.json() as Promise<Document>)
      .then(setFound, () => setFailed(true));
  }, []);
  // Links to a place in the page: what they lead to comes with the document.
  useEffect(() => {
    if (found && location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
  }, [found]);
  if (failed) return <main class="notice"><h1>Nobody answers</h1></main>;
  if (!found) return null;
  const routes = Object.entries(found.paths).flatMap(([path, methods]) => Object.entries(methods).map(([method, operation]) => ({ path, method, operation })));
  return (
    <>
      <header class="top">
        <div class="bar">
          <a class="home" href="/" aria-label="Saccade: all pictures">
            <Mark />
            <span class="wordmark">Saccade</span>
          </a>
        </div>
      </header>
      <main class="docs">
        <h1>{`${found.info.title}’s API`}</h1>
        <p>
          {`${found.info.summary}. The same as an `}
          <a href="/api/openapi.json">OpenAPI document</a>.
        </p>
        {found.tags.map((tag) => (
          <section key={tag.name} aria-labelledby={`tag-${tag.name}`}>
            <h2 id={`tag-${tag.name}`}>{tag.name}</h2>
            <p class="dim">{tag.description}</p>
            {routes.filter((one) => one.operation.tags.includes(tag.name)).map((one) => <Route key={`${one.method} ${one.path}`} {...one} />)}
          </section>
        ))}
        <section aria-labelledby="schemas">
          <h2 id="schemas">Objects</h2>
          {Object.entries(found.components.schemas).map(([name, schema]) => (
            <div key={name} id={`schema-${name}`} class="object">
              <Fields rows={rowsOf(schema)} caption={name} />
            </div>
          ))}
        </section>
      </main>
    </>
  );
}
