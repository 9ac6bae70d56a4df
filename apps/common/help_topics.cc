#include "help_topics.h"

#include <array>

namespace saccade::app {
namespace {

constexpr std::string_view kDatasets = R"(A dataset is named as PATH or PATH#key=value,...

  coco/dataset_coco.json#split=test      one split; several are joined by +: split=train+val
  captions.csv#images=photos             folder that image names are relative to
  data.csv#image-column=file,caption-column=text

The layout is told from the content; #format=NAME (or --format) names it:

  karpathy       Karpathy's JSON for COCO, Flickr30k and Flickr8k
  coco           COCO's captions_*.json
  sharegpt4v     records with "image" and "conversations"
  records        a JSON list of {"image", "caption"}
  winoground     Winoground's JSON Lines; also sugar_crepe
  fashion_iq     Fashion-IQ; also cirr, circo, edit_pairs: edit queries
  flickr_token   lines of IMAGE#N, a tab, a caption
  roco           ROCO's repository with fetched images; also roco_csv
  factify        CSV of this dataset; table: any CSV or TSV with a header
  webdataset     tar shards; parquet: Hugging Face's shards
  urban1k        image/1.jpg and caption/1.txt
  folder         images with caption files beside them
  manifest       JSON Lines: {"image": "a.jpg", "captions": ["..."], "split": "train"}

Nothing is left out silently: `saccade-lab dataset info PATH` says what was read and what was not.
)";

constexpr std::string_view kEngines =
    R"(An image engine draws an image from a text, or changes a reference image as a text says.

  openai         OpenAI's images API, and servers that speak it
  automatic1111  the API of AUTOMATIC1111's web UI and of Forge
  comfyui        ComfyUI's API, with --workflow FILE in its API format
  own            an editor that `saccade-lab train editor` made (generate edits only)

--endpoint names the server (defaults: api.openai.com, 127.0.0.1:7860, 127.0.0.1:8188). The key is read from
SACCADE_ENGINE_KEY, for OpenAI's own address also from OPENAI_API_KEY. --set FIELD=VALUE adds fields to its requests,
--prompt changes the instruction, --max-requests and --max-bytes bound what is spent.
)";

constexpr std::string_view kEnvironment = R"(Environment variables that the programs read. All are optional.

  SACCADE_COLLECTION     collection of commands without -c: a folder, or weaviate://HOST:PORT/NAME
  SACCADE_STARTER        folder of the starter checkpoint, in place of the one that comes with the program
  SACCADE_COMPOSER       folder of the starter's composer (--compose starter), likewise
  SACCADE_EDITOR         folder of the image editor (generate edits), likewise
  SACCADE_ENGINE_KEY     key of an image engine (saccade help engines); OPENAI_API_KEY at OpenAI's own address
  SACCADE_WEAVIATE_KEY   key of a Weaviate cluster, or SACCADE_WEAVIATE_KEY_FILE, a file with the key
  SACCADE_CPU            instructions that kernels use at most: portable, avx2, avx_vnni, avx512, avx512_vnni, avx512_bf16
                         or amx; on arm64 portable, neon, dotprod or i8mm (default: all that the processor has)

Folders:

  XDG_CACHE_HOME         caches: fingerprints, choices of --precision auto, embeddings of evaluations, thumbnails of serve,
                         the hub (default: ~/.cache)
  XDG_STATE_HOME         remembered collections, model aliases, results of model conform, history of the search prompt
                         (default: ~/.local/state)
  TMPDIR                 temporary files: frames of videos, images of PDFs (default: /tmp)

Model hub, as Hugging Face's tools read them:

  HF_ENDPOINT            address of the hub
  HF_TOKEN               access token, or HUGGING_FACE_HUB_TOKEN; else the file HF_TOKEN_PATH, or token in HF_HOME
  HF_HUB_DISABLE_IMPLICIT_TOKEN   1: send no token without --token-file
  HF_HOME                folder of token and cache (default: huggingface in XDG_CACHE_HOME)
  HF_HUB_CACHE           folder of downloaded models, or HUGGINGFACE_HUB_CACHE (default: hub in HF_HOME)
  HF_HUB_OFFLINE         1: do not use the network; also TRANSFORMERS_OFFLINE

Network and terminal:

  SSL_CERT_FILE          file of certificates to trust; else REQUESTS_CA_BUNDLE or CURL_CA_BUNDLE, else the system's
  https_proxy, no_proxy  and the other proxy variables of libcurl, for model pull, image engines and clusters
  NO_COLOR               not empty: output without colour
  TERM, TERM_PROGRAM     with KITTY_WINDOW_ID, LC_TERMINAL and TMUX: kind of the terminal, for search --thumbnails
  LISTEN_FDS, LISTEN_PID socket that systemd has opened for serve; it takes the place of --listen
  OMP_WAIT_POLICY        waiting of OpenMP's threads in train (default: passive); eval speed records it
  PATH                   folders of ffmpeg and ffprobe (videos) and of the programs of poppler-utils (PDF)
)";

constexpr std::string_view kExchange =
    R"(`collection export FOLDER` writes, and `collection import FOLDER` reads:

  rows.npy      embeddings, [n, dim]; import takes float16, float32 and float64, and rows of any length
  items.jsonl   one object per row, in the same order. Only "path" is needed: absolute, or relative to the folder.
                Also hash, size, mtime_ns, width, height, format, caption, taken, zone_minutes, camera, lens,
                latitude, longitude, place, rating, title, description, keywords, look, grain, looked_into
  export.json   names the checkpoint. Import refuses another one; without the file you vouch for it

Embeddings must come from the collection's checkpoint. -m names it for a collection that does not exist yet. hash, size,
mtime_ns, width, height and format are read from the image's file if a line lacks one of them. With --no-files none is
looked for: they stay unknown, and the image is searched all the same.
)";

constexpr std::string_view kFilters =
    R"(A filter is a condition on images. Conditions are joined by and, or, not and parentheses:

  width>=1000 and date>=2024
  (camera~canon or camera~nikon) and not keyword=private
  path~"*/birds/*.jpg" and rating>=4

  field                                      operators            values
  id width height rating                     = != < <= > >=       whole numbers; rating 0: not rated
  pixels                                     = != < <= > >=       width x height: 500k, 12M
  aspect latitude longitude                  = != < <= > >=       width / height; degrees north and east
  size                                       = != < <= > >=       bytes, 200kB, 2MB, 2MiB
  date taken added                           = != < <= > >=       2024, 2024-05, 2024-05-31, 2024-05-31T12:30
  format hash                                = != ~ !~            jpeg, png, raw, video, ...
  path caption camera lens place title keyword  = != ~ !~         text; ~ looks for it anywhere
  photograph                                 = !=                 yes, no

With any of * ? [ in it, the text of ~ is a glob over the whole value; of keywords one has to match. "taken" is the
camera's clock, "date" is that or else the file's time, "added" is when the image was indexed. A comparison with a value
that an image does not have is false; "not" inverts it, and != means not =.
)";

constexpr std::string_view kFormats =
    R"(Images. Folders are searched for these endings; a file's content decides its format:

  .jpg .jpeg .jpe .jfif    JPEG
  .png                     PNG
  .webp                    WebP, its first frame
  .gif                     GIF, its first frame
  .tif .tiff               TIFF, its first page
  .bmp .dib                Windows bitmap
  .heic .heif .hif .avif   HEIC and AVIF
  .svg .svgz               SVG, drawn at the size that the model needs
  .3fr .arw .cr2 .cr3 .crw .dcr .dng .erf .fff .iiq .kdc .mef .mos .mrw .nef .nrw .orf .pef .raf .rw2 .rwl .sr2 .srf .srw .x3f
                           RAW photographs, by their embedded preview; in builds with LibRaw
  .mp4 .m4v .mov .mkv .webm .avi .mpg .mpeg .mts .m2ts .3gp .wmv .asf .flv .ogv
                           videos, a frame for each scene, if ffmpeg is installed (--video-seconds, --video-frames)

Captions are read from .txt files beside images, and from datasets (--captions; saccade help datasets). `saccade index` counts
the files of other endings.

Checkpoints: folders in Hugging Face's or OpenCLIP's layout. Weights are read from .safetensors, else from torch's own files.

Documents of illustrate: text, Markdown, HTML and PDF (poppler-utils). Its output is Markdown or HTML.

Outputs:

  --json                 one JSON object; search --queries and watch print one a line
  --format, --paths      text for scripts (saccade help output)
  --html, report -o      a page in one file, with its images
  embed -o               .npy: float32 [n, dim], beside it names as JSON; .safetensors: the tensor rows, and names as metadata
  collection export      rows.npy and items.jsonl (saccade help exchange)
  -o of eval and train   a run folder (saccade help runs)
)";

constexpr std::string_view kOutput = R"(--format prints a text for each hit. Fields stand in braces:

  saccade search --format '{score}\t{path}\n' a red door

  rank score match_probability path name second caption id width height format size date dated_by hash
  taken zone_minutes camera lens latitude longitude place rating title description keywords
  keyword_matches near_duplicates

\t \n \0 and \\ are what they are in C; {{ and }} are braces. A field without a value is empty. -0 ends each record with
a NUL instead of a line end. --paths is short for --format '{path}'. --json prints one object with everything.
)";

constexpr std::string_view kProtocols =
    R"(Figures are comparable only under one protocol, so every run records it.

  Captions      all (every caption is a query), first5, first1, dedup, one-caption. COCO's 5k test images have 25,010 captions
  Hit rate r@k  text to image: share of captions whose image is among the first k. Image to text: share of images with a
                caption among them. CLIP's papers call it recall; recall@k of MTEB divides by the number of positives
  Ties          counted as optimistic, pessimistic, mean, by index, or as trec_eval does; tied queries are reported
  Winoground    text, image and group score with strict comparison: a tie is wrong. Chance: 25, 25, 16.67 %
  Fashion-IQ    gallery (original or union), reference kept or excluded, how the two captions are joined
  CIRR          reference excluded; R_subset@k over the five other members of its set
  CIRCO         mAP@k: precision at the positions of hits, divided by min(targets, k)
  Intervals     bootstrap over images, because captions of one image are correlated; percentile, 95 % unless asked

`saccade-lab eval ... --json` carries the protocol, file hashes, versions and seeds.
)";

constexpr std::string_view kQueries = R"(A query is a text, an image (--image), or both.

  two birds on a branch           one text
  cats -dogs                      cats, and not dogs
  beach:2 sunset                  two parts, the first with twice the weight; a weight is above 0, at most 10
  "golden retriever":2 -"stop sign":0.8      words in quotes are one part
  "red apple" tree                one text; keyword search wants the quoted words side by side
  cats -- -dogs                   behind -- everything is taken as it stands

--image FILE may be given several times: FILE:2 counts twice, FILE:-1 is not wanted. With --image, the text says what is to
be different ("this picture, but ..."); --compose chooses how the two become one query. In a shell, quote a query with
quotes or with words that begin with a hyphen. Put -- before a query that begins with one: saccade search -- -dogs cats
)";

constexpr std::string_view kRuns = R"(An evaluation or a training writes a run folder (-o):

  run.json       what was measured: protocol, datasets with hashes, checkpoints with fingerprints, versions, seeds
  metrics.json   of an evaluation: the figures with intervals
  *.jsonl        the data behind the figures, such as items and ranks; of a training: one line an evaluation
  embeddings     of an evaluation of retrieval: embeddings of images and texts
  state.safetensors   of a training: what it goes on from after an interruption
  model          of a training: the best checkpoint so far

`saccade-lab report RUN... -o page.html` makes a page of one or more runs; `saccade-lab eval advise RUN...` ranks models by
them.
)";

constexpr std::string_view kScores =
    R"(score              cosine similarity of the query's and the image's embeddings, -1 to 1. Its scale differs from model to
                   model: compare scores of one query only. With late interaction it is MaxSim, a sum over the text's
                   tokens; after --rerank it is the second model's score
match_probability  calibrated probability that the hit is right, learned when the collection was indexed from queries
                   whose answers its captions know. Empty if it is unknown; the answer gives the reason
--min-probability P  leaves out hits whose match_probability is below P
keywords           matches in captions, file and folder names are fused with the ranking by similarity (--keyword-weight
                   sets their weight); a hit that they brought shows them: [red apple: caption]
)";

constexpr std::array<HelpTopic, 11> kTopics{{
    {"datasets", "how datasets are named, and which layouts are read", kDatasets},
    {"engines", "programs that draw images, for illustrate and generate", kEngines},
    {"environment", "environment variables that the programs read", kEnvironment},
    {"exchange", "files of collection export and import", kExchange},
    {"filters", "conditions on images, for --filter", kFilters},
    {"formats", "files that are read and written", kFormats},
    {"output", "fields of search --format", kOutput},
    {"protocols", "how figures are defined", kProtocols},
    {"queries", "signs and weights in a query", kQueries},
    {"runs", "what evaluations and trainings leave behind", kRuns},
    {"scores", "what the numbers beside a hit mean", kScores},
}};

}  // namespace

std::span<const HelpTopic> help_topics() {
  return kTopics;
}

}  // namespace saccade::app
