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

// A stream that was refused is not opened again by the browser: the page is asked for until it answers. If the session has
// ended, the page says where to sign in. run.js uses this too; it cannot import it, since names of files carry a hash.
const whenPageAnswers = (address, goOn) => setTimeout(async () => {
  try {
    const reply = await fetch(address, { redirect: "manual" });
    if (reply.type === "opaqueredirect") location.reload();
    else if (reply.ok) goOn();
    else whenPageAnswers(address, goOn);
  } catch {
    whenPageAnswers(address, goOn);
  }
}, 2000);
globalThis.whenPageAnswers = whenPageAnswers;

// One stream a page says that something has changed; the page is read again and changed where it differs.
const main = document.querySelector("main[data-live]");
if (main) {
  const connection = document.getElementById("connection");
  const announcement = document.getElementById("announce");
  let isLost = false;
  let isBehind = false;
  let source;

  const readAgain = () => {
    isBehind = document.hidden || document.querySelector("dialog[open]") !== null;
    if (!isBehind) htmx.ajax("GET", main.dataset.address, { target: "#main", select: "#main", swap: "outerMorph" });
  };
  document.addEventListener("visibilitychange", () => {
    if (isBehind) readAgain();
  });
  const showConnection = (isThere) => {
    connection.textContent = isThere ? "" : connection.dataset.lost;
    document.body.classList.toggle("stale", !isThere);
    if (isThere && isLost) readAgain();
    isLost = !isThere;
  };
  const announce = (change) => {
    const sentences = ["waiting", "ended"].filter((kind) => change[kind] > 0).map((kind) => {
      const form = change[kind] === 1 ? "One" : "Other";
      return announcement.dataset[kind + form].replace("{n}", change[kind]);
    });
    if (!sentences.length) return;
    // The same words again are news only if they were gone.
    announcement.textContent = "";
    setTimeout(() => { announcement.textContent = sentences.join(" "); }, 100);
  };
  const open = () => {
    source = new EventSource(main.dataset.live);
    source.addEventListener("open", () => showConnection(true));
    source.addEventListener("error", () => {
      showConnection(false);
      if (source.readyState === EventSource.CLOSED) whenPageAnswers(main.dataset.address, open);
    });
    source.addEventListener("hub-change", (event) => {
      announce(JSON.parse(event.data));
      readAgain();
    });
  };
  open();
  addEventListener("pagehide", () => source.close());
}

// Files are dropped on the form that sends them, and one sees how far that is. Without scripts it is a plain form.
const sendFiles = (form) => {
  const progress = form.querySelector("progress");
  const request = new XMLHttpRequest();
  progress.hidden = false;
  request.upload.addEventListener("progress", (event) => {
    if (event.lengthComputable) progress.value = (100 * event.loaded) / event.total;
  });
  request.addEventListener("loadend", () => {
    progress.hidden = true;
    if (request.status === 200 && request.responseURL) {
      location.assign(request.responseURL);
      return;
    }
    const problem = new DOMParser().parseFromString(request.responseText, "text/html");
    document.getElementById("message").replaceChildren(...problem.body.children);
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
