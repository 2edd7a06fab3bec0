//! A whole Hub as users run it: `hermes hub serve`, with a process for each tenant.

use std::{fs, path::PathBuf, process::Command, sync::Mutex, time::Duration};

use hermes_testkit::{
    eventually_some,
    model::{ModelScript, ModelServer},
};
use reqwest::{Client, Method, RequestBuilder, Response};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::test_home::{BackgroundProcess, TestHome, signal_process};

/// Timeout of anything that should happen, on a loaded machine.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(2);

pub(crate) struct RealHub {
    home: TestHome,
    process: Mutex<BackgroundProcess>,
    pub(crate) pid: u32,
    pub(crate) url: String,
    client: Client,
    token: String,
}

/// A status, and the document that came with it.
#[derive(Debug)]
pub(crate) struct HubReply {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

impl HubReply {
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.body);
        self.body
    }
}

impl RealHub {
    pub(crate) fn start() -> Self {
        Self::in_home(Self::fresh_home())
    }

    pub(crate) fn fresh_home() -> TestHome {
        let home = TestHome::fresh();
        fs::create_dir(home.path()).unwrap();
        home
    }

    /// On the data of an earlier one.
    pub(crate) fn in_home(home: TestHome) -> Self {
        Self::with_arguments(home, &[])
    }

    pub(crate) fn with_arguments(home: TestHome, more: &[&str]) -> Self {
        let command = home.command(&[&["hub", "serve"], more].concat());
        Self::by_command(home, command)
    }

    pub(crate) fn by_command(home: TestHome, command: Command) -> Self {
        let mut process = BackgroundProcess::start(command);
        let line = process.wait_for("listens on http://");
        let url = line.split_whitespace().last().unwrap().to_owned();
        // It may have a file system of its own.
        let root = PathBuf::from(format!("/proc/{}/root", process.pid()));
        let token = data(&home).join("admin.token");
        let token = root.join(token.strip_prefix("/").unwrap());
        let token = fs::read_to_string(token).unwrap().trim().to_owned();
        Self {
            client: Client::builder()
                .no_proxy()
                .timeout(TIMEOUT)
                .build()
                .unwrap(),
            home,
            pid: process.pid(),
            process: Mutex::new(process),
            url,
            token,
        }
    }

    /// Kills it.
    pub(crate) fn kill(&self) {
        signal_process(self.pid, Signal::KILL);
    }

    /// What is left of one that was killed.
    pub(crate) fn into_home(self) -> TestHome {
        self.process.into_inner().unwrap().wait();
        self.home
    }

    pub(crate) fn data(&self) -> PathBuf {
        data(&self.home)
    }

    pub(crate) fn tenant_home(&self, tenant: &str) -> PathBuf {
        self.data().join("tenants").join(tenant).join("home")
    }

    /// The program, which asks this Hub.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.home.command(arguments);
        command.env("HERMES_HUB_URL", &self.url);
        command
    }

    /// A request of the administrator, to be completed.
    pub(crate) fn authorized(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.url));
        request.bearer_auth(&self.token)
    }

    /// An answer, or nothing if the Hub is gone.
    pub(crate) async fn try_request(
        &self,
        method: Method,
        path: &str,
        body: &Value,
    ) -> Option<HubReply> {
        let request = self
            .client
            .request(method, format!("{}{path}", self.url))
            .bearer_auth(&self.token);
        let request = if body.is_null() {
            request
        } else {
            request
                .header("content-type", "application/json")
                .body(body.to_string())
        };
        let response = request.send().await.ok()?;
        let status = response.status().as_u16();
        let text = response.text().await.ok()?;
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        Some(HubReply { status, body })
    }

    /// What a tool answers over MCP, with the status it would have over REST; nothing if the Hub is gone.
    pub(crate) async fn try_call(&self, tool: &str, arguments: &Value) -> Option<HubReply> {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": hermes_testkit::STATELESS,
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        });
        let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let request = self
            .client
            .post(format!("{}/mcp", self.url))
            .bearer_auth(&self.token)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", hermes_testkit::STATELESS)
            .header("mcp-method", "tools/call")
            .header("mcp-name", tool);
        let response = request.body(call.to_string()).send().await.ok()?;
        let text = response.text().await.ok()?;
        let answer: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"));
        let result = &answer["result"];
        let said = result["content"][0]["text"].as_str();
        let said = said.unwrap_or_else(|| panic!("{answer}"));
        let body: Value = serde_json::from_str(said).unwrap();
        let status = if result["isError"] == true {
            u16::try_from(body["status"].as_u64().unwrap()).unwrap()
        } else {
            200
        };
        Some(HubReply { status, body })
    }

    pub(crate) async fn request(&self, method: Method, path: &str, body: &Value) -> HubReply {
        let said = self.try_request(method, path, body).await;
        said.unwrap_or_else(|| panic!("the Hub is gone: {path}"))
    }

    /// A page of the console, as the administrator sees it.
    pub(crate) async fn console_page(&self, path: &str) -> String {
        let browser = Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .unwrap();
        let signed_in = browser
            .post(format!("{}/sign-in", self.url))
            .header("sec-fetch-site", "same-origin")
            .header("content-type", "application/x-www-form-urlencoded")
            .body(format!("token={}", self.token))
            .send()
            .await
            .unwrap();
        assert_eq!(signed_in.status(), 303);
        let cookie = signed_in.headers()["set-cookie"].to_str().unwrap();
        let cookie = cookie.split(';').next().unwrap();
        let page = browser.get(format!("{}{path}", self.url));
        let page = page.header("cookie", cookie).send().await.unwrap();
        assert_eq!(page.status(), 200);
        page.text().await.unwrap()
    }

    /// What somebody else is told.
    pub(crate) async fn request_with_token(&self, token: &str, path: &str) -> HubReply {
        let request = self.client.get(format!("{}{path}", self.url));
        let response = request.bearer_auth(token).send().await.unwrap();
        HubReply {
            status: response.status().as_u16(),
            body: response.text().await.unwrap().into(),
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        self.request(Method::GET, path, &Value::Null)
            .await
            .expect(200)
    }

    /// A tenant that is ready and whose model answers by script.
    pub(crate) async fn tenant(&self, id: &str, more: Value, script: ModelScript) -> ModelServer {
        let model = ModelServer::start(script);
        let mut request = json!({"id": id, "start": false});
        request
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().cloned().unwrap_or_default());
        self.request(Method::POST, "/v1/tenants", &request)
            .await
            .expect(201);
        let path = format!("/v1/tenants/{id}");
        self.wait_for(&path, |tenant| tenant["status"] == "ready")
            .await;
        let config = format!(
            "model: {{default: m, provider: custom, base_url: '{}'}}\nagent: {{api_max_retries: 0}}\n\
             approvals: {{mode: 'off'}}\nsecurity: {{allow_private_urls: true}}\n",
            model.base_url()
        );
        fs::write(self.tenant_home(id).join("config.yaml"), config).unwrap();
        model
    }

    /// Waits until something is as it should be.
    pub(crate) async fn wait_for(&self, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let found = eventually_some(TIMEOUT, async || {
            let said = self.request(Method::GET, path, &Value::Null).await;
            // Who asks this often may be told to wait a moment.
            let shown = (said.status != 429).then(|| said.expect(200));
            shown.filter(&is_so)
        });
        match found.await {
            Some(shown) => shown,
            None => panic!("{path} stays {}", self.get(path).await),
        }
    }

    /// Makes a job, and returns where it is.
    pub(crate) async fn job(&self, tenant: &str, schedule: &str, prompt: &str) -> String {
        let jobs = format!("/v1/tenants/{tenant}/agent-cron");
        let job = json!({"schedule": schedule, "prompt": prompt});
        let made = self.request(Method::POST, &jobs, &job).await.expect(201);
        format!("{jobs}/{}", made["job"]["id"].as_str().unwrap())
    }

    /// Begins a run, and returns where it is.
    pub(crate) async fn start_run(&self, tenant: &str, input: &str) -> String {
        let runs = format!("/v1/tenants/{tenant}/runs");
        let run = self
            .request(Method::POST, &runs, &json!({"input": input}))
            .await
            .expect(202);
        format!("{runs}/{}", run["runId"].as_str().unwrap())
    }

    /// The events of a run behind one of them, as they come.
    pub(crate) async fn events(&self, run: &str, after: u64) -> Response {
        let request = self
            .client
            .get(format!("{}{run}/events", self.url))
            .header("last-event-id", after.to_string());
        let response = request.bearer_auth(&self.token).send().await.unwrap();
        assert_eq!(response.status(), 200);
        response
    }

    /// A run, to its end.
    pub(crate) async fn run(&self, tenant: &str, input: &str) -> Value {
        let run = self.start_run(tenant, input).await;
        self.wait_for_end(&run).await
    }

    /// A run after its end.
    pub(crate) async fn wait_for_end(&self, run: &str) -> Value {
        let is_over = |run: &Value| {
            ["completed", "failed", "cancelled"].contains(&run["status"].as_str().unwrap())
        };
        self.wait_for(run, is_over).await
    }
}

fn data(home: &TestHome) -> PathBuf {
    home.beside(".local/share/hermes-hub")
}

/// What the model was told last, all of it.
pub(crate) fn tool_results(model: &ModelServer) -> String {
    let requests = model.requests();
    requests.last().unwrap().body["messages"].to_string()
}
