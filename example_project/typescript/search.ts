// Keyword search over the handbook with BM25, in TypeScript. Node 22.18 and later run it without a build.
//
//   node search.ts              reads questions from stdin, as JSON lines, and writes documents to stdout
//   node search.ts --port 8080  answers POST /search
import { createServer } from "node:http";
import { readdirSync, readFileSync } from "node:fs";
import { createInterface } from "node:readline";

interface Passage {
  id: string;
  text: string;
}

interface Found extends Passage {
  score: number;
}

const HANDBOOK = new URL("../handbook/", import.meta.url);
const STOP_WORDS = new Set(
  ("a an and are as at be by can could do does for from have how i if in is it many me much my of on or our that the " +
    "they to was we what when which who will with would you your").split(" "),
);
const K1 = 1.5;
const B = 0.75;

const tokenize = (text: string): string[] =>
  (text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [])
    .filter((word) => !STOP_WORDS.has(word))
    .map((word) => word.replace(/(?<=..[^s])s$/, ""));

const readChapter = (file: string): Passage[] =>
  readFileSync(new URL(file, HANDBOOK), "utf8")
    .split(/^## /m)
    .slice(1)
    .map((section) => {
      const [heading, ...lines] = section.split("\n");
      const slug = (heading.toLowerCase().match(/[a-z0-9]+/g) ?? []).join("-");
      const paragraph = lines.join(" ").replace(/\s+/g, " ").trim();
      return { id: `${file.replace(".md", "")}#${slug}`, text: `${heading}. ${paragraph}` };
    });

const documents = readdirSync(HANDBOOK).filter((file) => file.endsWith(".md")).sort().flatMap(readChapter);
const words = documents.map(({ text }) => tokenize(text));
const averageLength = words.reduce((sum, each) => sum + each.length, 0) / words.length;
const frequency = new Map<string, number>();
for (const each of words) {
  for (const word of new Set(each)) frequency.set(word, (frequency.get(word) ?? 0) + 1);
}

const score = (terms: string[], each: string[]): number =>
  terms.reduce((sum, term) => {
    const n = frequency.get(term) ?? 0;
    const count = each.filter((word) => word === term).length;
    const idf = Math.log(1 + (documents.length - n + 0.5) / (n + 0.5));
    return sum + (idf * count * (K1 + 1)) / (count + K1 * (1 - B + (B * each.length) / averageLength));
  }, 0);

export function search(query: string, k: number): Found[] {
  const terms = tokenize(query);
  const scores = words.map((each) => score(terms, each));
  const ranking = [...documents.keys()].sort((a, b) => scores[b] - scores[a]);
  return ranking.slice(0, k).map((n) => ({ ...documents[n], score: scores[n] }));
}

const [option, port] = process.argv.slice(2);
if (option === "--port") {
  createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    const { query, k } = JSON.parse(body);
    response.setHeader("Content-Type", "application/json");
    response.end(JSON.stringify({ hits: search(query, k).map((document) => ({ source: document })) }));
  }).listen(Number(port));
} else {
  for await (const line of createInterface({ input: process.stdin })) {
    const { id, query, k } = JSON.parse(line);
    console.log(JSON.stringify({ id, documents: search(query, k) }));
  }
}
