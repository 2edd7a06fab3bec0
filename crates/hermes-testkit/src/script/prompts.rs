//! Prompts: `greet`, which takes arguments, `picture`, which holds an image, and whatever a test adds.

use serde_json::json;

use super::{
    ServerScript, content, lock,
    request::{RequestOutcome, ScriptRequest},
};
use crate::wire::{self, RpcError};

pub(super) fn built_in() -> Vec<String> {
    vec!["greet".to_owned(), "picture".to_owned()]
}

impl ServerScript {
    pub(super) fn list_prompts(&self, request: &ScriptRequest) -> RequestOutcome {
        let prompts = lock(&self.offer)
            .prompts
            .iter()
            .map(|name| match name.as_str() {
                "greet" => json!({
                    "name": "greet",
                    "description": "Greets somebody.",
                    "arguments": [
                        { "name": "name", "description": "Who is greeted.", "required": true },
                        { "name": "style", "description": "How.", "required": false },
                    ],
                }),
                other => json!({ "name": other, "description": format!("The prompt {other}.") }),
            })
            .collect();
        self.page(request, "prompts", prompts)
    }

    pub(super) fn get_prompt(&self, request: &ScriptRequest) -> Result<RequestOutcome, RpcError> {
        let name = request.params["name"].as_str().unwrap_or_default();
        if !lock(&self.offer).prompts.iter().any(|known| known == name) {
            return Err(RpcError::new(
                wire::INVALID_PARAMS,
                format!("unknown prompt {name}"),
            ));
        }
        let message = match name {
            "greet" => {
                let Some(who) = request.argument("name").as_str() else {
                    return Err(RpcError::new(
                        wire::INVALID_PARAMS,
                        "missing argument `name`",
                    ));
                };
                let style = request.argument("style").as_str().unwrap_or("kindly");
                json!({ "type": "text", "text": format!("Greet {who} {style}.") })
            }
            "picture" => content::image()["content"][0].clone(),
            other => json!({ "type": "text", "text": format!("This is {other}.") }),
        };
        Ok(RequestOutcome::Result(json!({
            "description": format!("The prompt {name}."),
            "messages": [{ "role": "user", "content": message }],
        })))
    }
}
