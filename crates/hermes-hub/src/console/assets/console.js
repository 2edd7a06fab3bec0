// What every page has: the reader's own times, keys, the sign-in link, and pages that stay current.

const phone = matchMedia("(max-width: 48rem)");
const foldMenu = () => {
  const menu = document.querySelector("details.menu");
  if (menu) menu.open = !phone.matches;
};
phone.addEventListener("change", foldMenu);
foldMenu();

const language = document.documentElement.lang;
const shortTime = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "short" });
const number = new Intl.NumberFormat(language);
const plural = new Intl.PluralRules(language);
const longTime = new Intl.DateTimeFormat(language, { dateStyle: "full", timeStyle: "long" });
const showTimes = (root) => {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const date = new Date(time.dateTime);
    if (Number.isNaN(date.getTime())) continue;
    time.textContent = shortTime.format(date);
    time.title = longTime.format(date);
  }
};
showTimes(document);
document.addEventListener("htmx:after:swap", () => showTimes(document));

// A link of `hermes up` has its code behind #, which no server and no log sees.
const signIn = document.getElementById("sign-in");
const code = new URLSearchParams(location.hash.slice(1)).get("code");
if (signIn && code) {
  history.replaceState(null, "", location.pathname + location.search);
  signIn.elements.code.value = code;
  signIn.elements.token.required = false;
  signIn.submit();
}

let afterG = false;
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select, [contenteditable]")) return;
  if (afterG) {
    afterG = false;
    document.querySelector(`nav a[data-key="${CSS.escape(event.key)}"]`)?.click();
    return;
  }
  if (event.key === "g") {
    afterG = true;
    setTimeout(() => { afterG = false; }, 1500);
  }
  if (event.key === "/") {
    const search = document.querySelector("input[type=search]");
    if (search) {
      event.preventDefault();
      search.focus();
    }
  }
  if (event.key === "?") document.getElementById("keys")?.showModal();
});

// A page that is read again leaves alone what somebody has opened, and forms that somebody fills in.
const isFilledIn = (form) =>
  form.contains(document.activeElement) && document.activeElement.matches("input, textarea, select")
  || [...form.elements].some((field) =>
    field.type === "checkbox" || field.type === "radio" ? field.checked !== field.defaultChecked
    : field.type === "file" ? field.value !== ""
    : field.type !== "hidden" && "defaultValue" in field && field.value !== field.defaultValue);
// htmx asks extensions before it changes something; it sends no event. It takes forms with a field named `id` for others.
globalThis.htmx?.registerExtension("spared", {
  htmx_before_morph_node: (element) => !(element instanceof HTMLFormElement && isFilledIn(element)),
  htmx_before_morph_attr: (element, change) => !(change.attrName === "open" && element.matches("details, dialog")),
});

// What somebody has typed is not lost when the session ends under it: this tab keeps it until the page is there again. What
// is secret or hidden is not kept.
const DRAFT = "hermes-draft";
const currentAddress = () => {
  const url = new URL(location.href);
  url.searchParams.delete("done");
  return url.pathname + url.search;
};
const reader = () => document.querySelector(".who bdi")?.textContent;
const draftForms = () => [...document.querySelectorAll("main form[method=post]")];
const isKept = (field) => field.name && "value" in field && !["hidden", "password", "file", "submit", "button"].includes(field.type);
const keepDrafts = () => {
  const forms = draftForms().map((form, at) => ({ form, at })).filter(({ form }) => isFilledIn(form)).map(({ form, at }) => ({
    at,
    action: form.getAttribute("action"),
    values: [...form.elements].filter(isKept).map((field) => [field.name, field.type === "checkbox" || field.type === "radio" ? field.checked : field.value]),
  }));
  if (forms.length) sessionStorage.setItem(DRAFT, JSON.stringify({ address: currentAddress(), reader: reader(), forms }));
};
const restoreDrafts = () => {
  const kept = JSON.parse(sessionStorage.getItem(DRAFT) ?? "null");
  // Not on the way through the sign-in.
  if (!kept || !document.querySelector("main[data-address]")) return;
  sessionStorage.removeItem(DRAFT);
  const isDone = new URLSearchParams(location.search).has("done");
  if (isDone || kept.address !== currentAddress() || kept.reader !== reader()) return;
  const forms = draftForms();
  for (const { at, action, values } of kept.forms) {
    const form = forms[at];
    if (form?.getAttribute("action") !== action) continue;
    const fields = [...form.elements].filter(isKept);
    for (const [index, [name, value]] of values.entries()) {
      const field = fields[index];
      if (field?.name !== name) continue;
      if (typeof value === "boolean") field.checked = value;
      else field.value = value;
    }
    for (let part = form.closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
  }
};
restoreDrafts();
document.addEventListener("submit", (event) => {
  if (event.target.matches("main[data-address] form[method=post]")) keepDrafts();
});

// A stream that was refused is not opened again by the browser: the page is asked for until it answers. If the session has
// ended, the page says where to sign in. run.js uses this too; it cannot import it, since names of files carry a hash.
const whenPageAnswers = (address, goOn) => setTimeout(async () => {
  try {
    const reply = await fetch(address, { redirect: "manual" });
    if (reply.type === "opaqueredirect") {
      keepDrafts();
      location.reload();
    } else if (reply.ok) goOn();
    else whenPageAnswers(address, goOn);
  } catch {
    whenPageAnswers(address, goOn);
  }
}, 2000);
globalThis.whenPageAnswers = whenPageAnswers;

// A stream says that something has changed; the page is read again and changed where it differs. All pages of a browser have
// one together, since a browser has six connections to a host: the page that holds the lock tells the others. Where there
// are no locks (plain http from another machine), a page that nobody looks at has no stream.
const LIVE = "hermes-live";
const main = document.querySelector("main[data-live]");
if (main) {
  const connection = document.getElementById("connection");
  const announcement = document.getElementById("announce");
  const live = new URL(main.dataset.live, location.href);
  const tenant = live.searchParams.get("tenant");
  let isLost = false;
  let isBehind = false;
  let last = null;
  let source = null;

  const readAgain = () => {
    isBehind = document.hidden || document.querySelector("dialog[open]") !== null;
    if (!isBehind) htmx.ajax("GET", main.dataset.address, { target: "#main", select: "#main", swap: "outerMorph" });
  };
  const showConnection = (isThere) => {
    connection.textContent = isThere ? "" : connection.dataset.lost;
    document.body.classList.toggle("stale", !isThere);
    if (isThere && isLost) readAgain();
    isLost = !isThere;
  };
  const announce = (change) => {
    const sentences = ["waiting", "ended"].filter((kind) => change[kind] > 0).map((kind) => {
      const sentence = announcement.getAttribute(`data-${kind}-${plural.select(change[kind])}`);
      return (sentence ?? announcement.getAttribute(`data-${kind}-other`)).replace("{n}", number.format(change[kind]));
    });
    if (!sentences.length) return;
    // The same words again are news only if they were gone.
    announcement.textContent = "";
    setTimeout(() => { announcement.textContent = sentences.join(" "); }, 100);
  };
  const hear = (message) => {
    if (message.kind !== "change") {
      showConnection(message.kind === "open");
      return;
    }
    last = message.id;
    const { tenants } = message.change;
    // A page of a tenant is about nothing else. Without a list, it can be about all of them.
    if (tenant && tenants && !tenants[tenant]) return;
    announce(tenant && tenants ? tenants[tenant] : message.change);
    readAgain();
  };
  const openStream = (tell) => {
    const from = new URL(live);
    if (last) from.searchParams.set("after", last);
    const opened = new EventSource(from);
    source = opened;
    opened.addEventListener("open", () => tell({ kind: "open" }));
    opened.addEventListener("error", () => {
      tell({ kind: "lost" });
      if (opened.readyState === EventSource.CLOSED) whenPageAnswers(main.dataset.address, () => openStream(tell));
    });
    opened.addEventListener("hub-change", (event) => {
      tell({ kind: "change", id: event.lastEventId, change: JSON.parse(event.data) });
    });
  };
  if (navigator.locks && globalThis.BroadcastChannel) {
    const channel = new BroadcastChannel(LIVE);
    channel.addEventListener("message", (event) => hear(event.data));
    live.search = "";
    // Held until the page goes; then the next one has it, and goes on behind the last event that it heard of.
    navigator.locks.request(LIVE, () => new Promise(() => {
      openStream((message) => {
        channel.postMessage(message);
        hear(message);
      });
    }));
    document.addEventListener("visibilitychange", () => {
      if (isBehind) readAgain();
    });
  } else {
    if (!document.hidden) openStream(hear);
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) {
        source?.close();
        return;
      }
      openStream(hear);
      readAgain();
    });
  }
  addEventListener("pagehide", () => source?.close());
}

// What is wrong is said above the page.
const showProblem = (...content) => {
  const problem = document.createElement("p");
  problem.className = "problem";
  problem.append(...content);
  const message = document.getElementById("message");
  message.replaceChildren(problem);
  message.scrollIntoView({ block: "nearest" });
};

// Files are dropped on the form that sends them, and one sees how far that is. What has no room is not sent at all. Without
// scripts it is a plain form.
const sendFiles = (form) => {
  const { room, tooLarge, lost, ended, signIn: words } = form.dataset;
  const files = [...form.elements.file.files];
  const size = files.reduce((sum, file) => sum + file.size, 0);
  if (room !== undefined && size > Number(room)) {
    const names = files.filter((file) => file.size > Number(room)).map((file) => file.name);
    showProblem(tooLarge, names.length ? ` ${names.join(", ")}` : "");
    return;
  }
  const progress = form.querySelector("progress");
  const told = form.querySelector("output");
  const percent = new Intl.NumberFormat(language, { style: "percent" });
  const request = new XMLHttpRequest();
  progress.hidden = false;
  request.upload.addEventListener("progress", (event) => {
    if (!event.lengthComputable) return;
    progress.value = (100 * event.loaded) / event.total;
    told.textContent = `${files.map((file) => file.name).slice(0, 3).join(", ")}${files.length > 3 ? " …" : ""} · ${percent.format(event.loaded / event.total)}`;
  });
  request.addEventListener("loadend", () => {
    progress.hidden = true;
    told.textContent = "";
    if (request.status === 200 && request.responseURL) {
      location.assign(request.responseURL);
      return;
    }
    if (request.status === 401) {
      // The files stay chosen: signed in elsewhere, one sends them again.
      const link = document.createElement("a");
      link.href = "/sign-in";
      link.target = "_blank";
      link.textContent = words;
      showProblem(ended, " ", link);
    } else if (request.status === 0) showProblem(lost);
    else {
      const problem = new DOMParser().parseFromString(request.responseText, "text/html");
      document.getElementById("message").replaceChildren(...problem.body.children);
    }
  });
  request.open("POST", form.action);
  request.setRequestHeader("hx-request", "true");
  request.send(new FormData(form));
};
document.addEventListener("submit", (event) => {
  if (!event.target.matches("form[data-upload]")) return;
  event.preventDefault();
  sendFiles(event.target);
});
for (const kind of ["dragover", "dragleave", "drop"]) {
  document.addEventListener(kind, (event) => {
    const form = event.target.closest?.("form[data-upload]");
    if (!form) return;
    event.preventDefault();
    form.classList.toggle("dropping", kind === "dragover");
    if (kind === "drop" && event.dataTransfer.files.length) {
      form.elements.file.files = event.dataTransfer.files;
      sendFiles(form);
    }
  });
}

// What is wrong with a long form is said in it, and it stays as it was filled in. Without scripts it is a plain form.
document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (!form.matches("form[data-keep]")) return;
  event.preventDefault();
  const message = form.querySelector("[role=alert]");
  try {
    const body = new URLSearchParams(new FormData(form));
    const reply = await fetch(form.action, { method: "POST", headers: { "hx-request": "true" }, body });
    if (reply.redirected) location.assign(reply.url);
    else if (reply.headers.has("hx-retarget")) {
      const problem = new DOMParser().parseFromString(await reply.text(), "text/html");
      message.replaceChildren(...problem.body.children);
      message.scrollIntoView({ block: "nearest" });
    } else form.submit();
  } catch {
    form.submit();
  }
});

// Buttons that copy a text are there only where that is possible.
document.documentElement.classList.toggle("can-copy", Boolean(navigator.clipboard));
document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
  const label = button.firstChild;
  const text = label.textContent;
  if (text === button.dataset.copied) return;
  label.textContent = button.dataset.copied;
  setTimeout(() => { label.textContent = text; }, 2000);
});
