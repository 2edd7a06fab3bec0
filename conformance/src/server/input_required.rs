//! Tools that need an answer of the client before they can give theirs: the first call returns questions, and the client
//! calls again with the answers and the state it was given.

use hermes_serve::Principal;
use rmcp::{
    ErrorData, RoleServer,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ContentBlock,
        CreateMessageRequest, CreateMessageRequestParams, CreateMessageResult, ElicitRequest,
        ElicitResult, ElicitationAction, InputRequest, InputRequiredResult, InputResponses,
        ListRootsRequest, ListRootsResult, RequestStateCodec, SamplingMessage, SealOptions, Tool,
    },
    service::RequestContext,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::content::{text_result, tool_without_arguments};
use crate::server::server_requests;

pub(super) fn tools() -> Vec<Tool> {
    vec![
        tool_without_arguments(
            "test_input_required_result_elicitation",
            "Asks the user's name",
        ),
        tool_without_arguments("test_streaming_elicitation", "Asks the user's name"),
        tool_without_arguments(
            "test_input_required_result_sampling",
            "Asks the client's model",
        ),
        tool_without_arguments(
            "test_input_required_result_list_roots",
            "Asks for the roots",
        ),
        tool_without_arguments(
            "test_input_required_result_request_state",
            "Asks with a state that must come back",
        ),
        tool_without_arguments(
            "test_input_required_result_tampered_state",
            "Asks with a state that must come back",
        ),
        tool_without_arguments(
            "test_input_required_result_multiple_inputs",
            "Asks several things at once",
        ),
        tool_without_arguments(
            "test_input_required_result_multi_round",
            "Asks one thing after another",
        ),
        tool_without_arguments(
            "test_input_required_result_capabilities",
            "Asks what the client can answer",
        ),
        tool_without_arguments("test_missing_capability", "Needs the client's model"),
    ]
}

/// The answer, if the tool is one of these.
pub(super) fn call(
    sealing: &RequestStateCodec,
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Option<Result<CallToolResponse, ErrorData>> {
    let call = InputRequiredCall {
        state_codec: sealing,
        request,
        context,
    };
    Some(match &*request.name {
        "test_input_required_result_elicitation" | "test_streaming_elicitation" => call.name(),
        "test_input_required_result_sampling" => call.sample(),
        "test_input_required_result_list_roots" => call.roots(),
        "test_input_required_result_request_state"
        | "test_input_required_result_tampered_state" => call.confirm(),
        "test_input_required_result_multiple_inputs" => call.everything(),
        "test_input_required_result_multi_round" => call.multi_round(),
        "test_input_required_result_capabilities" => call.request_supported(),
        "test_missing_capability" => call.require_sampling(),
        _ => return None,
    })
}

/// One round of a tool call.
struct InputRequiredCall<'c> {
    state_codec: &'c RequestStateCodec,
    request: &'c CallToolRequestParams,
    context: &'c RequestContext<RoleServer>,
}

impl InputRequiredCall<'_> {
    fn name(&self) -> Result<CallToolResponse, ErrorData> {
        match self.form_field("user_name", "name")? {
            FormOutcome::Unanswered => {
                self.request_input(vec![("user_name", name_request()?)], None)
            }
            FormOutcome::Refused => Ok(unanswered_result()),
            FormOutcome::Filled(name) => Ok(text_result(format!("Hello, {}!", text(&name))).into()),
        }
    }

    fn sample(&self) -> Result<CallToolResponse, ErrorData> {
        let answer: Option<CreateMessageResult> = self.input_response("capital_question")?;
        let Some(answer) = answer else {
            let question = sampling_request("What is the capital of France?");
            return self.request_input(vec![("capital_question", question)], None);
        };
        let content = json!(answer.message.content);
        Ok(text_result(format!("The model says: {}", content["text"])).into())
    }

    fn roots(&self) -> Result<CallToolResponse, ErrorData> {
        let answer: Option<ListRootsResult> = self.input_response("client_roots")?;
        let Some(answer) = answer else {
            return self.request_input(vec![("client_roots", roots_request())], None);
        };
        let roots: Vec<_> = answer.roots.into_iter().map(|root| root.uri).collect();
        Ok(text_result(format!("The roots are {}.", roots.join(", "))).into())
    }

    fn confirm(&self) -> Result<CallToolResponse, ErrorData> {
        match self.form_field("confirm", "ok")? {
            FormOutcome::Unanswered => {
                let question = form_request("Please confirm", "ok", "boolean")?;
                self.request_input(
                    vec![("confirm", question)],
                    Some(self.encode_state("asked")),
                )
            }
            FormOutcome::Refused => Ok(unanswered_result()),
            FormOutcome::Filled(_) => {
                self.decode_state()?;
                Ok(text_result("state-ok").into())
            }
        }
    }

    fn everything(&self) -> Result<CallToolResponse, ErrorData> {
        let name = self.form_field("user_name", "name")?;
        let greeting: Option<CreateMessageResult> = self.input_response("greeting")?;
        let roots: Option<ListRootsResult> = self.input_response("client_roots")?;
        let (FormOutcome::Filled(name), Some(_), Some(roots)) = (name, greeting, roots) else {
            let questions = vec![
                ("user_name", name_request()?),
                ("greeting", sampling_request("Generate a greeting")),
                ("client_roots", roots_request()),
            ];
            return self.request_input(questions, Some(self.encode_state("asked")));
        };
        self.decode_state()?;
        let (name, count) = (text(&name), roots.roots.len());
        Ok(text_result(format!("Hello, {name}, with {count} roots!")).into())
    }

    /// What was answered in the first round travels in the state of the second.
    fn multi_round(&self) -> Result<CallToolResponse, ErrorData> {
        if let FormOutcome::Filled(color) = self.form_field("step2", "color")? {
            let name = self.decode_state()?;
            return Ok(text_result(format!("{name} likes {}.", text(&color))).into());
        }
        if let FormOutcome::Filled(name) = self.form_field("step1", "name")? {
            self.decode_state()?;
            let question = form_request("Step 2: What is your favorite color?", "color", "string")?;
            let state = self.encode_state(&text(&name));
            return self.request_input(vec![("step2", question)], Some(state));
        }
        let question = form_request("Step 1: What is your name?", "name", "string")?;
        self.request_input(vec![("step1", question)], Some(self.encode_state("asked")))
    }

    fn request_supported(&self) -> Result<CallToolResponse, ErrorData> {
        let declared = self.context.client_capabilities().unwrap_or_default();
        let all = [
            ("user_name", name_request()?),
            ("greeting", sampling_request("Generate a greeting")),
            ("client_roots", roots_request()),
        ];
        let possible = all
            .into_iter()
            .filter(|(_, question)| missing_capability(question, &declared).is_none());
        let possible: Vec<_> = possible.collect();
        if possible.is_empty() || self.request.input_responses.is_some() {
            return Ok(text_result("There is nothing more to ask.").into());
        }
        self.request_input(possible, None)
    }

    fn require_sampling(&self) -> Result<CallToolResponse, ErrorData> {
        let answer: Option<CreateMessageResult> = self.input_response("answer")?;
        match answer {
            None => self.request_input(vec![("answer", sampling_request("Say something"))], None),
            Some(_) => Ok(text_result("The model has answered.").into()),
        }
    }

    fn request_input(
        &self,
        questions: Vec<(&str, InputRequest)>,
        state: Option<String>,
    ) -> Result<CallToolResponse, ErrorData> {
        request_input(questions, state, self.context).map(Into::into)
    }

    fn input_response<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, ErrorData> {
        input_response(self.request.input_responses.as_ref(), key)
    }

    fn form_field(&self, key: &str, field: &str) -> Result<FormOutcome, ErrorData> {
        form_field(self.request.input_responses.as_ref(), key, field)
    }

    /// Only this principal can come back with it, and only to this tool.
    fn bound_to(&self) -> String {
        let principal = Principal::from_extensions(&self.context.extensions);
        let principal = principal.map_or("", Principal::name);
        format!("{principal} tools/call {}", self.request.name)
    }

    fn encode_state(&self, state: &str) -> String {
        let bound_to = self.bound_to();
        let options = SealOptions::new().associated_data(bound_to.as_bytes());
        self.state_codec.seal_with(state.as_bytes(), &options)
    }

    /// The state that came back, if it is one of ours.
    fn decode_state(&self) -> Result<String, ErrorData> {
        let sealed = self.request.request_state.as_deref().unwrap_or_default();
        let opened = self
            .state_codec
            .open_with(sealed, self.bound_to().as_bytes());
        let state = opened.map_err(|error| ErrorData::invalid_params(error.to_string(), None))?;
        Ok(String::from_utf8_lossy(&state).into_owned())
    }
}

/// What became of a form.
pub(super) enum FormOutcome {
    /// It has not been shown yet.
    Unanswered,
    /// The user declined or left.
    Refused,
    /// The field has this value.
    Filled(Value),
}

/// Questions for the client, if it declared that it can answer them.
pub(super) fn request_input(
    questions: Vec<(&str, InputRequest)>,
    state: Option<String>,
    context: &RequestContext<RoleServer>,
) -> Result<InputRequiredResult, ErrorData> {
    let declared = context.client_capabilities().unwrap_or_default();
    for (_, question) in &questions {
        if let Some(missing) = missing_capability(question, &declared) {
            return Err(ErrorData::missing_required_client_capability(missing));
        }
    }
    let questions = questions
        .into_iter()
        .map(|(key, question)| (key.to_owned(), question));
    Ok(InputRequiredResult::new(Some(questions.collect()), state))
}

/// The capability a question needs, unless it is declared.
fn missing_capability(
    question: &InputRequest,
    declared: &ClientCapabilities,
) -> Option<ClientCapabilities> {
    let needed = ClientCapabilities::builder();
    match question {
        InputRequest::CreateMessage(_) if declared.sampling.is_none() => {
            Some(needed.enable_sampling().build())
        }
        InputRequest::Elicitation(_) if declared.elicitation.is_none() => {
            Some(needed.enable_elicitation().build())
        }
        InputRequest::ListRoots(_) if declared.roots.is_none() => {
            Some(needed.enable_roots().build())
        }
        _ => None,
    }
}

/// The client's answer to a question, if there is one. What was not asked is not looked at.
fn input_response<T: DeserializeOwned>(
    answers: Option<&InputResponses>,
    key: &str,
) -> Result<Option<T>, ErrorData> {
    let Some(value) = answers.and_then(|answers| answers.get(key)) else {
        return Ok(None);
    };
    let answer = T::deserialize(value);
    answer.map(Some).map_err(|error| {
        ErrorData::invalid_params(format!("the answer to `{key}` is not valid: {error}"), None)
    })
}

/// What the user wrote into the field of a form.
pub(super) fn form_field(
    answers: Option<&InputResponses>,
    key: &str,
    field: &str,
) -> Result<FormOutcome, ErrorData> {
    let Some(answer) = input_response::<ElicitResult>(answers, key)? else {
        return Ok(FormOutcome::Unanswered);
    };
    if answer.action != ElicitationAction::Accept {
        return Ok(FormOutcome::Refused);
    }
    let value = answer
        .content
        .and_then(|content| content.get(field).cloned());
    value.map(FormOutcome::Filled).ok_or_else(|| {
        ErrorData::invalid_params(format!("the answer to `{key}` lacks `{field}`"), None)
    })
}

/// A form with one field.
pub(super) fn form_request(
    message: &str,
    field: &str,
    kind: &str,
) -> Result<InputRequest, ErrorData> {
    let schema =
        json!({"type": "object", "properties": {field: {"type": kind}}, "required": [field]});
    let form = server_requests::form_request(message, schema)?;
    Ok(InputRequest::Elicitation(ElicitRequest::new(form)))
}

pub(super) fn name_request() -> Result<InputRequest, ErrorData> {
    form_request("What is your name?", "name", "string")
}

fn sampling_request(prompt: &str) -> InputRequest {
    let messages = vec![SamplingMessage::user_text(prompt)];
    let params = CreateMessageRequestParams::new(messages, 100);
    InputRequest::CreateMessage(CreateMessageRequest::new(params))
}

fn roots_request() -> InputRequest {
    InputRequest::ListRoots(ListRootsRequest::default())
}

fn text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

fn unanswered_result() -> CallToolResponse {
    CallToolResult::error(vec![ContentBlock::text("The user did not answer.")]).into()
}
