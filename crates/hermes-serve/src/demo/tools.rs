//! The demo server's tools.

use std::time::Duration;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use rmcp::{
    Json, RoleServer,
    handler::server::wrapper::Parameters,
    model::{CallToolResult, ContentBlock, ProgressNotificationParam},
    service::RequestContext,
    tool, tool_router,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Demo, picture};
use hermes_config::clock::Moment;

const STEP: Duration = Duration::from_millis(100);
const MAX_STEPS: u32 = 600;

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Echo {
    /// The text to send back
    text: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Add {
    /// The first number
    a: i64,
    /// The second number
    b: i64,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Sum {
    /// a + b
    sum: i64,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Count {
    /// How far to count, from 1 to 600; each step takes 100 ms
    #[schemars(range(min = 1, max = 600))]
    steps: u32,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Now {
    /// The time in UTC, as RFC 3339
    utc: String,
    /// Seconds since 1970-01-01T00:00:00Z
    unix_seconds: u64,
    /// The day of the week, in English
    weekday: String,
}

#[tool_router(vis = "pub(super)")]
impl Demo {
    #[tool(
        description = "Send a text back unchanged. Useful to see that a server answers at all.",
        annotations(
            title = "Echo",
            read_only_hint = true,
            idempotent_hint = true,
            open_world_hint = false
        )
    )]
    async fn echo(&self, Parameters(Echo { text }): Parameters<Echo>) -> String {
        text
    }

    #[tool(
        description = "Add two whole numbers. The sum comes back as structured output.",
        annotations(
            title = "Add",
            read_only_hint = true,
            idempotent_hint = true,
            open_world_hint = false
        )
    )]
    async fn add(&self, Parameters(Add { a, b }): Parameters<Add>) -> Result<Json<Sum>, String> {
        match a.checked_add(b) {
            Some(sum) => Ok(Json(Sum { sum })),
            None => Err(format!("{a} + {b} does not fit into 64 bits")),
        }
    }

    #[tool(
        description = "Count up, one step every 100 ms, reporting progress at each. Stops when cancelled.",
        annotations(
            title = "Count",
            read_only_hint = true,
            idempotent_hint = true,
            open_world_hint = false
        )
    )]
    async fn count(
        &self,
        Parameters(Count { steps }): Parameters<Count>,
        context: RequestContext<RoleServer>,
    ) -> Result<String, String> {
        if !(1..=MAX_STEPS).contains(&steps) {
            return Err(format!(
                "`steps` is {steps}; it must be from 1 to {MAX_STEPS}"
            ));
        }
        let token = context.meta.get_progress_token();
        for step in 1..=steps {
            tokio::select! {
                () = context.ct.cancelled() => return Err(format!("cancelled at {} of {steps}", step - 1)),
                () = tokio::time::sleep(STEP) => {}
            }
            let Some(token) = token.clone() else { continue };
            let progress = ProgressNotificationParam::new(token, f64::from(step))
                .with_total(f64::from(steps))
                .with_message(format!("{step} of {steps}"));
            if context.peer.notify_progress(progress).await.is_err() {
                return Err("the client has gone".to_owned());
            }
        }
        Ok(format!("counted to {steps}"))
    }

    #[tool(
        description = "Draw a small picture: a 64 by 64 pixel PNG of the letter H.",
        annotations(
            title = "Picture",
            read_only_hint = true,
            idempotent_hint = true,
            open_world_hint = false
        )
    )]
    async fn picture(&self) -> CallToolResult {
        CallToolResult::success(vec![
            ContentBlock::text("A white H on a blue disc, 64 by 64 pixels."),
            ContentBlock::image(BASE64_STANDARD.encode(picture::png()), "image/png"),
        ])
    }

    #[tool(
        description = "Tell the current time in UTC, as structured output.",
        annotations(title = "Now", read_only_hint = true, open_world_hint = false)
    )]
    async fn now(&self) -> Result<Json<Now>, String> {
        let Some(moment) = Moment::now() else {
            return Err("the clock of this machine stands before 1970".to_owned());
        };
        Ok(Json(Now {
            utc: moment.rfc3339(),
            unix_seconds: moment.unix_seconds,
            weekday: moment.weekday().to_owned(),
        }))
    }
}
