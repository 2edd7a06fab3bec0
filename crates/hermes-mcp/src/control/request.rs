//! Requests to servers on behalf of another process: executed here, reported there, cancelled when it hangs up.

use std::{
    collections::VecDeque,
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::{
    net::unix::OwnedWriteHalf,
    sync::{mpsc, oneshot},
};

use super::{Answer, Question, QuestionLines, RequestQuestion, write_answer};
use crate::{
    CallOptions, Host,
    inquiry::{Conversation, ElicitAnswer, ElicitationFailed},
    protocol::{ElicitRequestParams, ElicitResult},
    session::Progress,
};

/// Events waiting to be sent; progress that finds the queue full is dropped.
const NEWS: usize = 16;

static NEXT: AtomicU64 = AtomicU64::new(1);

/// What is sent to the client while a request runs.
enum News {
    Progress(Progress),
    Question(ElicitRequestParams, oneshot::Sender<ElicitResult>),
}

/// Executes a request and reports its outcome.
pub(super) async fn serve(
    host: &Host,
    question: RequestQuestion,
    lines: &mut QuestionLines,
    writer: &mut OwnedWriteHalf,
) -> io::Result<()> {
    if !host.can_take_requests(&question.server) {
        return write_answer(writer, &Answer::NotHere).await;
    }
    // A client that has hung up by now makes the request itself, and it must not be made twice.
    write_answer(writer, &Answer::Accepted).await?;
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let conversation = Conversation(format!("control-{number}").into());
    let (tell, mut told) = mpsc::channel(NEWS);
    let _route = question.can_answer.then(|| {
        let inquiries = host.routed_inquiries();
        inquiries.route(conversation.clone(), answers_of_caller(tell.clone()))
    });
    let options = CallOptions {
        timeout: question.timeout,
        conversation: Some(conversation),
        on_progress: Some(Arc::new(move |progress: &Progress| {
            let _ = tell.try_send(News::Progress(progress.clone()));
        })),
        ..CallOptions::default()
    };
    let mut work = std::pin::pin!(host.carry_out(&question.server, question.request, &options));
    let mut asked = VecDeque::new();
    let mut is_there = true;
    let report = loop {
        tokio::select! {
            report = &mut work => break report,
            Some(news) = told.recv() => {
                let answer = match news {
                    News::Progress(progress) => Answer::Progress(progress),
                    News::Question(request, reply) => {
                        asked.push_back(reply);
                        Answer::Elicit { request }
                    }
                };
                if write_answer(writer, &answer).await.is_err() {
                    options.cancel.cancel();
                }
            }
            line = lines.next_line(), if is_there => {
                let Ok(Some(line)) = line else {
                    is_there = false;
                    options.cancel.cancel();
                    continue;
                };
                if let Ok(Question::Elicited { result }) = serde_json::from_str(&line)
                    && let Some(reply) = asked.pop_front()
                {
                    let _: Result<(), ElicitResult> = reply.send(result);
                }
            }
        }
    };
    write_answer(writer, &Answer::Done { report }).await
}

/// Asks the person at the other end.
fn answers_of_caller(tell: mpsc::Sender<News>) -> ElicitAnswer {
    Arc::new(move |request| {
        let tell = tell.clone();
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            let gone = || ElicitationFailed("the caller no longer waits for this call".to_owned());
            let question = News::Question(request, reply);
            tell.send(question).await.map_err(|_| gone())?;
            answer.await.map_err(|_| gone())
        })
    })
}
