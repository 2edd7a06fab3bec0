//! Prompts: `greet`, which takes arguments, `picture`, which holds an image, and whatever a test adds.

use serde_json::json;

use super::request::{Answer, Request};
use super::{Script, content, lock};
use crate::wire::{self, Error};

pub(super) fn built_in() -> Vec<String> {
    vec!["greet".to_owned(), "picture".to_owned()]
}

impl Script {
    pub(super) fn list_prompts(&self, request: &Request) -> Answer {
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

    pub(super) fn get_prompt(&self, request: &Request) -> Result<Answer, Error> {
        let name = request.params["name"].as_str().unwrap_or_default();
        if !lock(&self.offer).prompts.iter().any(|known| known == name) {
            return Err(Error::new(
                wire::INVALID_PARAMS,
                format!("unknown prompt {name}"),
            ));
        }
        let message = match name {
            "greet" => {
                let Some(who) = request.argument("name").as_str() else {
                    return Err(Error::new(wire::INVALID_PARAMS, "missing argument `name`"));
                };
                let style = request.argument("style").as_str().unwrap_or("kindly");
                json!({ "type": "text", "text": format!("Greet {who} {style}.") })
            }
            "picture" => content::image()["content"][0].clone(),
            other => json!({ "type": "text", "text": format!("This is {other}.") }),
        };
        Ok(Answer::Result(json!({
            "description": format!("The prompt {name}."),
            "messages": [{ "role": "user", "content": message }],
        })))
    }
}
