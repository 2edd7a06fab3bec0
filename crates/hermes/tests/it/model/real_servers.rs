//! A model server that others wrote: LiteLLM's proxy, told what to answer.

use std::{
    fs,
    net::TcpStream,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use hermes_testkit::ReservedPort;
use serde_json::json;

use crate::harness::program::Hermes;

const VARIABLE: &str = "HERMES_TEST_VENV_LITELLM";
const PROXY_KEY: &str = "sk-proxy-0123456789";
/// It loads for ten seconds on an idle machine.
const TIMEOUT: Duration = Duration::from_mins(3);

#[expect(clippy::print_stdout, reason = "a test that is skipped says so")]
fn program() -> Option<PathBuf> {
    if std::env::var_os("HERMES_TEST_SKIP_REAL").is_some_and(|value| value == "1") {
        println!("SKIPPED: HERMES_TEST_SKIP_REAL is set, so nothing is tested with LiteLLM");
        return None;
    }
    let Some(place) = std::env::var_os(VARIABLE) else {
        panic!(
            "{VARIABLE} is not set: `./test` installs the proxy and sets it; for a single test run \
             `scripts/equipment install` and `eval \"$(scripts/equipment env)\"`, or set HERMES_TEST_SKIP_REAL=1"
        );
    };
    Some(PathBuf::from(place).join("bin/litellm"))
}

/// The proxy, until it is dropped.
struct Proxy {
    child: Child,
    port: u16,
}

impl Proxy {
    fn start(hermes: &Hermes) -> Option<Self> {
        let program = program()?;
        let mock = |name: &str, text: &str| {
            json!({"model_name": name, "litellm_params": {
                "model": format!("openai/{name}"), "api_key": "none", "mock_response": text,
            }})
        };
        let config = json!({
            "model_list": [
                mock("mock-chat", "Hello from the proxy."),
                mock("mock-other", "Something else."),
            ],
            "general_settings": {"master_key": PROXY_KEY},
        });
        let file = hermes.home.path().join("litellm.yaml");
        fs::write(&file, config.to_string()).unwrap();
        let kept = ReservedPort::reserve().unwrap();
        let port = kept.number();
        drop(kept);
        let log = fs::File::create(hermes.home.path().join("litellm.log")).unwrap();
        let child = Command::new(program)
            .arg("--config")
            .arg(&file)
            .args(["--host", "127.0.0.1", "--telemetry", "False", "--port"])
            .arg(port.to_string())
            // Prices are not fetched.
            .env("LITELLM_LOCAL_MODEL_COST_MAP", "True")
            .env("NO_PROXY", "*")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut proxy = Self { child, port };
        let log = || fs::read_to_string(hermes.home.path().join("litellm.log")).unwrap();
        let listens = hermes_testkit::wait_until(TIMEOUT, || {
            assert!(proxy.child.try_wait().unwrap().is_none(), "{}", log());
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        assert!(listens, "{}", log());
        Some(proxy)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_proxy_that_others_wrote_lists_its_models_and_answers_in_both_protocols() {
    let hermes = Hermes::new();
    let Some(proxy) = Proxy::start(&hermes) else {
        return;
    };
    let origin = format!("http://127.0.0.1:{}", proxy.port);
    hermes.home.write_env(&format!("PROXY_KEY={PROXY_KEY}\n"));
    let config = json!({
        "providers": {
            "proxy": {"base_url": format!("{origin}/v1"), "key_env": "PROXY_KEY"},
            "proxied-claude": {
                "base_url": origin, "key_env": "PROXY_KEY", "api_mode": "anthropic_messages",
            },
        },
        "model": {"autodetect": false},
    });
    fs::write(hermes.home.path().join("config.yaml"), config.to_string()).unwrap();

    let listed = hermes
        .run(&["model", "--list", "--json"])
        .ok()
        .hides(&[PROXY_KEY])
        .json();
    for offer in listed["offers"].as_array().unwrap() {
        assert_eq!(
            offer["models"],
            json!(["mock-chat", "mock-other"]),
            "{listed}"
        );
    }
    for provider in ["proxy", "proxied-claude"] {
        let args = [
            "chat",
            "-m",
            "mock-chat",
            "--provider",
            provider,
            "-q",
            "Hi",
            "-Q",
        ];
        let ran = hermes.run(&args).ok().hides(&[PROXY_KEY]);
        assert_eq!(ran.stdout, "Hello from the proxy.\n", "{provider}: {ran:?}");
    }
    hermes
        .run(&["model", "mock-other", "--provider", "proxy"])
        .ok();
    let ran = hermes.run(&["-q", "Hi"]).ok();
    assert!(ran.stdout.contains("Something else."), "{ran:?}");
    let ran = hermes
        .run(&["-m", "no-such-model", "-z", "Hi"])
        .exits_with(1);
    assert!(ran.stderr.contains("no-such-model"), "{ran:?}");
    // Without a database, the proxy has its own words for a wrong key.
    hermes.home.write_env("PROXY_KEY=sk-wrong-0123456789\n");
    let ran = hermes.run(&["-z", "Hi"]).exits_with(1);
    let ran = ran.hides(&["sk-wrong-0123456789"]);
    assert!(ran.stderr.starts_with("error: `proxy`: "), "{ran:?}");
}
