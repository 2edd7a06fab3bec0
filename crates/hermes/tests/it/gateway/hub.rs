//! A gateway as a Hub starts it: on a socket that it inherits, with directives on stdin, and without a clock.

use std::{
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::net::{UnixListener, UnixStream},
    },
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use hermes::embedded_hub::runtime::handover::AgentKeys;
use hermes_protocol::{Directives, Policy};
use hermes_testkit::model::ScriptedAnswer;

use super::*;
use crate::harness::{
    program::{entry, with_tools},
    test_home::wait_until,
};

const RUNTIME_KEY: &str = "hub_rt_0123456789";

/// A gateway that a Hub would have started; killed when dropped.
struct TenantGateway {
    child: Child,
    socket: PathBuf,
}

impl Drop for TenantGateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Directives with this policy; members that it leaves out are as without one.
fn directives(policy: &Value) -> Directives {
    Directives::new(Policy::resolve(policy, &Policy::unrestricted()).unwrap())
}

fn start_tenant(place: &GatewayHome, directives: &Directives) -> TenantGateway {
    start_with_stdin(place, &serde_json::to_string(directives).unwrap())
}

fn start_with_stdin(place: &GatewayHome, text: &str) -> TenantGateway {
    let socket = place.home.beside("agent.sock");
    let _ = std::fs::remove_file(&socket);
    let listener = OwnedFd::from(UnixListener::bind(&socket).unwrap());
    // The copy is not closed when the program starts.
    let inherited = rustix::io::dup(&listener).unwrap();
    let keys = AgentKeys {
        runtime_key: RUNTIME_KEY.into(),
        env: [("GIVEN_BY_THE_HUB".to_owned(), "planted words".to_owned())].into(),
    };
    let keys = rustix::io::dup(keys.into_file().unwrap()).unwrap();
    let plain = place.home.command(&["gateway", "run", "-q"]);
    let mut command = Command::new(plain.get_program());
    command
        .args(plain.get_args())
        .env_clear()
        .envs(
            plain
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .env("HERMES_TENANT_ID", "tenant_123")
        .env("HERMES_API_FD", inherited.as_raw_fd().to_string())
        .env("HERMES_KEYS_FD", keys.as_raw_fd().to_string())
        .stdin(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(text.as_bytes()).unwrap();
    drop(stdin);
    TenantGateway { child, socket }
}

impl TenantGateway {
    fn request(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        self.request_with_key(RUNTIME_KEY, method, path, body)
    }

    fn request_with_key(&self, key: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let stream = UnixStream::connect(&self.socket).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let headers = format!("Authorization: Bearer {key}\r\n");
        send_request(stream, method, path, &headers, body)
    }

    fn put(&self, directives: &Directives) {
        let body = serde_json::to_value(directives).unwrap();
        let (status, answer) = self.request("PUT", "/internal/directives", &body);
        assert_eq!(status, 200, "{answer}");
    }

    fn ended(&self, run: &str) -> Value {
        let mut shown = Value::Null;
        wait_until("the end of a run", || {
            shown = self
                .request("GET", &format!("/v1/runs/{run}"), &Value::Null)
                .1;
            ["completed", "failed"].contains(&shown["status"].as_str().unwrap())
        });
        shown
    }

    fn run(&self, input: &str) -> Value {
        let (status, started) = self.request("POST", "/v1/runs", &json!({"input": input}));
        assert_eq!(status, 202, "{started}");
        self.ended(started["run_id"].as_str().unwrap())
    }
}

#[test]
fn it_answers_on_the_inherited_socket_by_the_runtime_key_alone() {
    let place = GatewayHome::new(ModelScript::echo());
    let first = Directives {
        specialization: "You work for Acme.".into(),
        ..directives(&json!({"tools": {"deny": ["terminal"]}}))
    };
    let tenant = start_tenant(&place, &first);
    assert_eq!(tenant.run("hi")["output"], "hi");
    let request = &place.model.requests()[0].body;
    let system = request["messages"][0]["content"].as_str().unwrap();
    assert!(system.starts_with("You work for Acme."), "{system}");
    let tools = request["tools"].to_string();
    assert!(tools.contains("\"read_file\"") && !tools.contains("\"terminal\""));
    for wrong in [KEY, "hub_rt_012345678", "x"] {
        let (status, _) = tenant.request_with_key(wrong, "GET", "/v1/models", &Value::Null);
        assert_eq!(status, 401, "{wrong}");
    }
    tenant.put(&Directives {
        specialization: "You work for Umbra.".into(),
        ..directives(&json!({}))
    });
    tenant.run("ho");
    let request = &place.model.requests()[1].body;
    assert!(request["tools"].to_string().contains("\"terminal\""));
    let system = request["messages"][0]["content"].as_str().unwrap();
    assert!(system.starts_with("You work for Umbra."), "{system}");
}

#[test]
fn without_directives_nothing_is_permitted_until_they_come() {
    let place = GatewayHome::new(ModelScript::echo());
    let tenant = start_with_stdin(&place, "");
    let refused = tenant.run("hi");
    assert_eq!(refused["status"], "failed", "{refused}");
    assert!(place.model.requests().is_empty());
    tenant.put(&directives(&json!({})));
    assert_eq!(tenant.run("hi")["output"], "hi");
}

#[test]
fn directives_that_are_not_understood_are_not_begun_with_and_not_taken() {
    let place = GatewayHome::new(ModelScript::echo());
    let whole = serde_json::to_value(directives(&json!({"tools": {"deny": ["terminal"]}})));
    let whole = whole.unwrap();
    let mut unknown = whole.clone();
    unknown["policy"]["tools"]["allowAll"] = json!(true);
    let mut missing = whole.clone();
    missing["policy"].as_object_mut().unwrap().remove("egress");
    for wrong in [&unknown, &missing, &json!({}), &json!([])] {
        let mut tenant = start_with_stdin(&place, &wrong.to_string());
        assert_eq!(tenant.child.wait().unwrap().code(), Some(2), "{wrong}");
    }
    let tenant = start_with_stdin(&place, &whole.to_string());
    wait_until("the socket", || {
        tenant.request("GET", "/health", &Value::Null).0 == 200
    });
    for wrong in [&unknown, &missing, &json!({}), &json!([])] {
        let (status, answer) = tenant.request("PUT", "/internal/directives", wrong);
        assert_eq!(status, 400, "{wrong}: {answer}");
    }
    tenant.run("hi");
    let tools = place.model.requests()[0].body["tools"].to_string();
    assert!(tools.contains("\"read_file\"") && !tools.contains("\"terminal\""));
}

#[test]
fn servers_come_and_go_with_the_feature() {
    let place = GatewayHome::new(ModelScript::echo());
    let config = std::fs::read_to_string(place.home.config()).unwrap();
    let servers = json!({"one": entry(&with_tools(&["hello"]))});
    let config = format!("{config}mcp_servers: {servers}\n");
    place.home.write_config(&config);
    let without = directives(&json!({"features": {"enabled": []}}));
    let tenant = start_tenant(&place, &without);
    let servers =
        || tenant.request("GET", "/health/detailed", &Value::Null).1["mcp_servers"].clone();
    assert_eq!(servers(), json!([]));
    tenant.put(&directives(&json!({})));
    wait_until("the server", || servers()[0]["status"] == "ready");
    tenant.put(&without);
    assert_eq!(servers(), json!([]));
}

#[test]
fn the_hub_keeps_the_clock_and_runs_a_job_itself() {
    let place = GatewayHome::new(ModelScript::new([ScriptedAnswer::text("All is well.")]));
    place
        .home
        .run(&["cron", "create", "every 1h", "Look", "--id", "look"])
        .ok();
    place.home.run(&["cron", "run", "look"]).ok();
    let tenant = start_tenant(&place, &directives(&json!({})));
    wait_until("the socket", || {
        tenant.request("GET", "/health", &Value::Null).0 == 200
    });
    // A ticker would see at once what is due.
    let is_run = || !place.model.requests().is_empty();
    assert!(!hermes_testkit::wait_until(Duration::from_secs(1), is_run));
    let (status, started) = tenant.request("POST", "/api/jobs/look/run", &json!({}));
    assert_eq!(status, 202, "{started}");
    let shown = tenant.ended(started["run_id"].as_str().unwrap());
    assert_eq!(shown["output"], "All is well.");
}

#[test]
fn without_its_key_or_socket_it_does_not_start() {
    let place = GatewayHome::new(ModelScript::echo());
    let mut command = place.home.command(&["gateway", "run"]);
    command.env("HERMES_TENANT_ID", "tenant_123");
    let ran = crate::harness::program::run(command, "").exits_with(2);
    assert!(ran.stderr.contains("HERMES_KEYS_FD"), "{}", ran.stderr);
    let mut command = place.home.command(&["gateway", "run"]);
    command.env("HERMES_API_FD", "77");
    let ran = crate::harness::program::run(command, "").exits_with(2);
    assert!(ran.stderr.contains("HERMES_API_FD=77"), "{}", ran.stderr);
}

/// Sends a request as another process would that knows the key, and tells the status.
fn request_from_other_process(
    tenant: &TenantGateway,
    method: &str,
    path: &str,
    body: &Value,
) -> String {
    let script = "import socket, sys\n\
                  s = socket.socket(socket.AF_UNIX)\n\
                  s.connect(sys.argv[1])\n\
                  body = sys.argv[5]\n\
                  s.sendall(f'{sys.argv[3]} {sys.argv[4]} HTTP/1.1\\r\\nHost: agent\\r\\nConnection: close\\r\\n'.encode())\n\
                  s.sendall(f'Authorization: Bearer {sys.argv[2]}\\r\\nContent-Type: application/json\\r\\n'.encode())\n\
                  s.sendall(f'Content-Length: {len(body)}\\r\\n\\r\\n{body}'.encode())\n\
                  print(s.makefile().readline())";
    let output = Command::new("python3")
        .args(["-c", script])
        .arg(&tenant.socket)
        .args([RUNTIME_KEY, method, path, &body.to_string()])
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[test]
fn whoever_knows_the_key_but_is_not_the_hub_is_turned_away() {
    let place = GatewayHome::new(ModelScript::echo());
    let denies = directives(&json!({"tools": {"deny": ["terminal"]}}));
    let tenant = start_tenant(&place, &denies);
    wait_until("the socket", || {
        tenant.request("GET", "/health", &Value::Null).0 == 200
    });
    for (method, path, body) in [
        (
            "PUT",
            "/internal/directives",
            serde_json::to_value(directives(&json!({}))).unwrap(),
        ),
        ("POST", "/v1/runs", json!({"input": "hi"})),
        ("POST", "/v1/runs/run_1/approval", json!({"choice": "once"})),
        ("GET", "/v1/models", Value::Null),
    ] {
        let status = request_from_other_process(&tenant, method, path, &body);
        assert!(status.contains(" 403 "), "{method} {path}: {status}");
    }
    tenant.run("hi");
    let request = &place.model.requests()[0].body;
    assert!(!request["tools"].to_string().contains("\"terminal\""));
}

#[cfg(target_os = "linux")]
#[test]
fn keys_are_in_no_environment_and_no_other_process_can_look_for_them() {
    let place = GatewayHome::new(ModelScript::echo());
    let tenant = start_tenant(&place, &directives(&json!({})));
    wait_until("the socket", || {
        tenant.request("GET", "/health", &Value::Null).0 == 200
    });
    let of = |file: &str| format!("/proc/{}/{file}", tenant.child.id());
    let environment = std::fs::read(of("environ")).unwrap();
    let environment = String::from_utf8_lossy(&environment);
    assert!(environment.contains("HERMES_KEYS_FD"), "{environment}");
    for secret in [RUNTIME_KEY, "planted words"] {
        assert!(!environment.contains(secret), "{environment}");
    }
    // Files of a process that may not be inspected belong to root, whoever runs it.
    let owner = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(of("environ")).unwrap());
    assert_eq!(owner, 0);
    let status = std::fs::read_to_string(of("status")).unwrap();
    assert!(
        status.contains("VmRSS"),
        "its size cannot be seen: {status}"
    );
}
