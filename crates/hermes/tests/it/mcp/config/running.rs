//! A running process hears of an edit at once.

use hermes_config::{Home, Settings};
use hermes_mcp::{Host, HostOptions, LinkStatus, control::ControlSocket, process::GuardProgram};
use serde_json::json;

use crate::harness::program::{Hermes, entry, with_tools};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edit_is_applied_by_the_running_process() {
    let config = json!({"mcp_servers": {"kit": entry(&with_tools(&["read", "write"]))}});
    let hermes = Hermes::with_config(&config.to_string());
    let home = Home::at(hermes.home.path());
    let guard = GuardProgram {
        path: env!("CARGO_BIN_EXE_hermes").into(),
        args: vec!["__guard".into()],
    };
    let settings = Settings::load(&home).unwrap();
    let host = Host::start(HostOptions::new(home.clone(), guard), &settings).await;
    host.wait_until_settled(std::time::Duration::from_secs(30))
        .await;
    let socket = ControlSocket::open(&home).unwrap();
    let edits = async {
        let run = |line: &'static [&'static str]| {
            let command = hermes.command(line);
            tokio::task::spawn_blocking(move || crate::harness::program::run(command, "").ok())
        };
        let ran = run(&["mcp", "tools", "kit", "--include", "read"])
            .await
            .unwrap();
        assert!(
            ran.stderr.contains("running hermes process has reloaded"),
            "{ran:?}"
        );
        let registry = host.registry();
        let tools: Vec<&str> = registry.tools().map(|tool| tool.original_name()).collect();
        assert!(
            tools.contains(&"read") && !tools.contains(&"write"),
            "{tools:?}"
        );

        run(&["mcp", "disable", "kit"]).await.unwrap();
        assert_eq!(host.status()[0].status, LinkStatus::Disabled);
        run(&["mcp", "remove", "kit", "--yes"]).await.unwrap();
        assert!(host.status().is_empty());
    };
    tokio::select! {
        () = edits => {}
        () = socket.serve(&host) => {}
    }
    host.shutdown().await;
}
