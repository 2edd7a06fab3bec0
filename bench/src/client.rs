//! Everything that can have a text echoed, from a bare pipe to the host.

use std::{
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use hermes_mcp::{CallOptions, Era, Host, transport::stdio::LineTransport};
use rmcp::{
    RoleClient,
    model::{CallToolRequestParams, CallToolResult, ContentBlock, ProtocolVersion},
    service::{ClientLifecycleMode, ClientServiceExt, RunningService},
    transport::{StreamableHttpClientTransport, TokioChildProcess},
};
use serde_json::{Map, Value};

use crate::{
    baseline,
    baseline::{AsyncLinePipe, HttpPipe, LinePipe},
    environment::{Programs, light_server},
};

/// rmcp with nothing of ours around it.
pub(crate) type RawClient = RunningService<RoleClient, ()>;

/// One way to have a text echoed.
pub(crate) enum EchoClient {
    Pipe(LinePipe),
    AsyncPipe(AsyncLinePipe),
    Written(LinePipe),
    AsyncWritten(AsyncLinePipe),
    WrittenHttp(HttpPipe),
    Rmcp(RawClient),
    Host {
        host: Host,
        tool: String,
    },
    /// The host, up to the line of JSON that goes to the model.
    HostJson {
        host: Host,
        tool: String,
    },
}

impl EchoClient {
    /// Has a text echoed and says how long it took. Making the arguments is not counted: that is the caller's work.
    pub(crate) async fn echo(&mut self, text: &str) -> Result<Duration> {
        let began;
        let elapsed;
        let returned = match self {
            Self::Pipe(lines) => {
                let line = format!("{text}\n");
                began = Instant::now();
                let back = lines.exchange(line.as_bytes())?;
                elapsed = began.elapsed();
                back.len() - 1
            }
            Self::AsyncPipe(lines) => {
                let line = format!("{text}\n");
                began = Instant::now();
                let back = lines.exchange(line.as_bytes()).await?;
                elapsed = began.elapsed();
                back.len() - 1
            }
            Self::Written(lines) => {
                began = Instant::now();
                let back =
                    baseline::decode_reply(1, lines.exchange(&baseline::encode_call(1, text)?)?)?;
                elapsed = began.elapsed();
                back.len()
            }
            Self::AsyncWritten(lines) => {
                began = Instant::now();
                let back = baseline::decode_reply(
                    1,
                    lines.exchange(&baseline::encode_call(1, text)?).await?,
                )?;
                elapsed = began.elapsed();
                back.len()
            }
            Self::WrittenHttp(posts) => {
                began = Instant::now();
                let back =
                    baseline::decode_reply(1, posts.exchange(&baseline::encode_call(1, text)?)?)?;
                elapsed = began.elapsed();
                back.len()
            }
            Self::Rmcp(service) => {
                let arguments = arguments(text);
                began = Instant::now();
                let params = CallToolRequestParams::new("echo").with_arguments(arguments);
                let result = service.call_tool(params).await?;
                elapsed = began.elapsed();
                text_of(&result)?.len()
            }
            Self::Host { host, tool } => {
                let arguments = arguments(text);
                began = Instant::now();
                let outcome = host.call(tool, arguments, &CallOptions::default()).await;
                elapsed = began.elapsed();
                ensure!(!outcome.is_error(), "{}", outcome.text());
                outcome.text().len()
            }
            Self::HostJson { host, tool } => {
                let arguments = arguments(text);
                began = Instant::now();
                let outcome = host.call(tool, arguments, &CallOptions::default()).await;
                let json = outcome.to_json();
                elapsed = began.elapsed();
                ensure!(!outcome.is_error(), "{}", outcome.text());
                json.len() - r#"{"result":""}"#.len()
            }
        };
        ensure!(
            returned == text.len(),
            "{} bytes went out and {returned} came back",
            text.len()
        );
        Ok(elapsed)
    }

    pub(crate) fn is_host(&self) -> bool {
        matches!(self, Self::Host { .. })
    }
}

fn arguments(text: &str) -> Map<String, Value> {
    Map::from_iter([("text".to_owned(), Value::from(text))])
}

fn text_of(result: &CallToolResult) -> Result<&str> {
    match result.content.as_slice() {
        [ContentBlock::Text(content)] => Ok(&content.text),
        _ => anyhow::bail!("the answer is not one text"),
    }
}

fn lifecycle(era: Era) -> ClientLifecycleMode {
    match era {
        Era::Legacy => ClientLifecycleMode::Initialize,
        Era::Stateless => ClientLifecycleMode::Discover {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        },
    }
}

impl Programs {
    /// The arguments of the light server that echoes.
    pub(crate) fn echo_arguments(era: Era) -> Result<Vec<String>> {
        let behaviour = serde_json::to_string(&light_server(era))?;
        Ok(vec!["--echo".into(), behaviour])
    }

    /// rmcp with its own transport.
    pub(crate) async fn raw_stdio(&self, era: Era, arguments: &[String]) -> Result<RawClient> {
        let mut command = tokio::process::Command::new(&self.server);
        command.args(arguments);
        let transport = TokioChildProcess::new(command)?;
        Ok(().serve_with_lifecycle(transport, lifecycle(era)).await?)
    }

    /// rmcp with the host's transport.
    pub(crate) async fn raw_over_lines(&self, era: Era) -> Result<RawClient> {
        let mut child = tokio::process::Command::new(&self.server)
            .args(Self::echo_arguments(era)?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let transport = LineTransport::new(
            child.stdout.take().context("no stdout")?,
            child.stdin.take().context("no stdin")?,
        );
        Ok(().serve_with_lifecycle(transport, lifecycle(era)).await?)
    }
}

/// rmcp over HTTP.
pub(crate) async fn raw_http(era: Era, url: String) -> Result<RawClient> {
    let transport = StreamableHttpClientTransport::from_uri(url);
    Ok(().serve_with_lifecycle(transport, lifecycle(era)).await?)
}
