// A live run, drawn as it goes on: as a log of steps, or as a conversation. Once a frame, however much there is, and never more
// rows than can be read. All text is text, never markup.

const MAX_ROWS = 300;
// A text that grows is measured again with every piece: beyond this a new row goes on with it.
const MAX_TEXT = 4000;
// When much happens, nobody reads sixty times a second: then it is drawn less often.
const BUSY_EVENTS = 4;
const BUSY_INTERVAL = 150;

const clock = new Intl.DateTimeFormat(document.documentElement.lang, { timeStyle: "medium" });
const seconds = new Intl.NumberFormat(document.documentElement.lang, { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const connection = document.getElementById("connection");
const announcement = document.getElementById("announce");
let source = null;
let isLost = false;

const showConnection = (isThere) => {
  isLost = !isThere;
  connection.textContent = isThere ? "" : connection.dataset.lost;
  document.body.classList.toggle("stale", !isThere);
};

const addRow = (list, kind, event, title, words) => {
  const item = document.createElement("li");
  item.className = kind;
  const at = document.createElement("span");
  at.className = "at";
  at.textContent = clock.format(new Date(event.time));
  const body = document.createElement("div");
  const isTool = kind === "tool";
  if (title) {
    const name = document.createElement(isTool ? "code" : "strong");
    name.textContent = title;
    body.append(name, " ");
  }
  const said = document.createElement(isTool ? "span" : "div");
  said.className = isTool ? "text preview" : "text";
  said.dir = "auto";
  said.append(document.createTextNode(words));
  body.append(said);
  item.append(at, body);
  list.append(item);
  return item;
};

// Adds events to a list; returns what has to be said if the page must be read again, else null.
const drawLog = (list) => {
  const only = new URLSearchParams(location.search).get("only");
  const wants = (filter) => !only || only === filter;
  const calls = new Map();
  let text = null;

  const addText = (event, words) => {
    if (!wants("text")) return;
    if (text?.isConnected && text.length + words.length < MAX_TEXT) text.appendData(words);
    else text = addRow(list, "text-step", event, "", words).querySelector(".text").firstChild;
  };
  const endCall = (event) => {
    const step = calls.get(event.callId);
    if (!step) return;
    calls.delete(event.callId);
    step.classList.toggle("failed", event.error);
    const took = document.createElement("span");
    took.className = "quiet";
    took.textContent = `${seconds.format(event.duration)} s`;
    step.querySelector("code")?.after(" ", took);
  };
  const dropOld = () => {
    let extra = list.children.length - MAX_ROWS;
    if (extra <= 0) return;
    document.getElementById("earlier").hidden = false;
    for (; extra > 0; extra -= 1) list.firstElementChild.remove();
  };

  return (events) => {
    let news = null;
    let first = null;
    let joined = "";
    const endText = () => {
      if (first) addText(first, joined);
      first = null;
      joined = "";
    };
    for (const event of events) {
      if (event.event === "message.delta") {
        first ??= event;
        joined += event.delta;
        continue;
      }
      endText();
      if (event.event === "tool.completed") endCall(event);
      else text = null;
      if (event.event === "tool.started" && wants("tools")) {
        calls.set(event.callId, addRow(list, "tool", event, event.tool, event.preview));
      } else if (event.event === "reasoning.available" && wants("text")) {
        addRow(list, "thought", event, "", event.text);
      } else if (event.event === "approval.request") news = list.dataset.asked;
      else if (event.event === "approval.responded") news ??= "";
      else if (/^run\.(completed|failed|cancelled)$/.test(event.event)) news = list.dataset.ended;
    }
    endText();
    dropOld();
    return news;
  };
};

// In the chat, Enter sends.
document.addEventListener("keydown", (event) => {
  if (event.target.id !== "words" || event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  if (event.target.value.trim()) event.target.form.requestSubmit();
});

const element = (name, className, content) => {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.textContent = content;
  return made;
};

// The same as a conversation.
const drawTalk = (talk) => {
  const last = talk.lastElementChild;
  let text = last?.classList.contains("agent") ? last.querySelector(".text") : null;

  const add = (kind, ...nodes) => {
    const item = document.createElement("li");
    item.className = kind;
    item.append(...nodes);
    talk.append(item);
  };
  const addText = (piece) => {
    if (!piece) return;
    if (!text) {
      text = element("div", "text", "");
      text.dir = "auto";
      add("agent", element("p", "who-says", talk.dataset.agent), text);
    }
    if (text.lastChild?.nodeType === Node.TEXT_NODE) text.lastChild.appendData(piece);
    else text.append(piece);
  };

  return (events) => {
    let news = null;
    let joined = "";
    for (const event of events) {
      if (event.event === "message.delta") {
        joined += event.delta;
        continue;
      }
      addText(joined);
      joined = "";
      if (event.event === "tool.started") {
        text = null;
        add("step", element("code", "", event.tool), " ", element("bdi", "", event.preview));
      } else if (event.event === "approval.request") news = talk.dataset.asked;
      else if (event.event === "approval.responded") news ??= "";
      else if (/^run\.(completed|failed|cancelled)$/.test(event.event)) news = talk.dataset.ended;
    }
    addText(joined);
    return news;
  };
};

const readPage = () => htmx.ajax("GET", location.pathname + location.search, { target: "#main", select: "#main", swap: "outerMorph" });

// Runs take at most three of the six connections that a browser has to a host. Returns what gives it back; null if there is
// none.
const RUN_CONNECTIONS = 3;
const takeConnection = async () => {
  if (!navigator.locks) return () => {};
  for (let number = 1; number <= RUN_CONNECTIONS; number += 1) {
    const release = await new Promise((taken) => {
      navigator.locks.request(`hermes-run-${number}`, { ifAvailable: true }, (lock) => {
        if (lock) return new Promise(taken);
        taken(null);
        return null;
      });
    });
    if (release) return release;
  }
  return null;
};
// A run that is followed by nothing else is read again so often.
const WITHOUT_CONNECTION = 3000;
let isFollowing = false;

const follow = async () => {
  const list = document.getElementById("steps") ?? document.getElementById("talk");
  const address = list?.dataset.events;
  if (!address || isFollowing) return;
  isFollowing = true;
  const release = await takeConnection();
  if (!release) {
    setTimeout(() => {
      isFollowing = false;
      readPage();
    }, WITHOUT_CONNECTION);
    return;
  }
  const draw = list.id === "talk" ? drawTalk(list) : drawLog(list);
  let waiting = [];
  let isPlanned = false;
  let isBusy = false;

  const flush = () => {
    isPlanned = false;
    const events = waiting;
    isBusy = events.length > BUSY_EVENTS;
    waiting = [];
    const isAtEnd = innerHeight + scrollY >= document.documentElement.scrollHeight - 120;
    const news = draw(events);
    if (isAtEnd) scrollTo({ top: document.documentElement.scrollHeight });
    if (news === null) return;
    // What is asked, decided or over changes more than the list: the page as the Hub has it now, and on from there.
    source.close();
    source = null;
    isFollowing = false;
    release();
    announcement.textContent = news;
    readPage();
  };

  let last = null;
  // A stream that was refused is another one afterwards: it goes on behind the last event that came.
  const open = () => {
    const from = new URL(address, location.href);
    if (last) from.searchParams.set("after", last);
    const opened = new EventSource(from);
    source = opened;
    opened.addEventListener("message", (event) => {
      last = event.lastEventId;
      waiting.push(JSON.parse(event.data));
      if (isPlanned) return;
      isPlanned = true;
      // A page in the background has no frames, and nobody looks at it.
      if (document.hidden) setTimeout(flush, 1000);
      else if (isBusy) setTimeout(() => requestAnimationFrame(flush), BUSY_INTERVAL);
      else requestAnimationFrame(flush);
    });
    opened.addEventListener("open", () => showConnection(true));
    opened.addEventListener("error", () => {
      showConnection(false);
      if (opened.readyState !== EventSource.CLOSED) return;
      whenPageAnswers(location.pathname + location.search, () => {
        if (source === opened) open();
      });
    });
  };
  open();
};

follow();
if (document.getElementById("talk")) scrollTo({ top: document.documentElement.scrollHeight });
document.addEventListener("htmx:after:swap", () => {
  follow();
  // A page that was read and follows nothing has lost nothing.
  if (isLost && !source) showConnection(true);
});
addEventListener("pagehide", () => source?.close());
