// Pictures that the reader brings: kept for this tab alone, by a short name that stands in the address.

const kept = new Map<string, string>();
const prefix = "saccade-image-";
// Larger files are made smaller before they are sent: no model reads more.
const mostBytes = 3_000_000;
const side = 1600;

export function imageOf(name: string): string | null {
  return kept.get(name) ?? sessionStorage.getItem(prefix + name);
}

function keep(data: string): string {
  const name = Math.random().toString(36).slice(2, 10);
  kept.set(name, data);
  try {
    sessionStorage.setItem(prefix + name, data);
  } catch {
    // Full: it lives as long as the page does.
  }
  return name;
}

function readAsData(blob: Blob): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(new Error("The picture cannot be read."));
    reader.readAsDataURL(blob);
  });
}

async function smaller(file: Blob): Promise<Blob> {
  const bitmap = await createImageBitmap(file);
  const scale = Math.min(1, side / Math.max(bitmap.width, bitmap.height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.round(bitmap.width * scale));
  canvas.height = Math.max(1, Math.round(bitmap.height * scale));
  canvas.getContext("2d")!.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  bitmap.close();
  return new Promise((resolve, reject) =>
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("no picture"))), "image/jpeg", 0.92),
  );
}

// The name under which the picture is kept. Throws with a sentence for the reader.
export async function takeImage(file: Blob): Promise<string> {
  if (!file.type.startsWith("image/")) throw new Error("That is no picture.");
  if (file.size <= mostBytes) return keep(await readAsData(file));
  try {
    return keep(await readAsData(await smaller(file)));
  } catch {
    throw new Error("This picture cannot be opened here; try a smaller one, or a JPEG or PNG.");
  }
}

export function pictureIn(data: DataTransfer | null): File | null {
  for (const file of data?.files ?? []) {
    if (file.type.startsWith("image/")) return file;
  }
  return null;
}
