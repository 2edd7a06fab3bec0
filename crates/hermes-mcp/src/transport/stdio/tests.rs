use rmcp::model::{
    ClientNotification, ClientRequest, ClientResult, InitializedNotification, PingRequest,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use super::*;

type Pair = (
    LineTransport<DuplexStream, DuplexStream>,
    DuplexStream,
    DuplexStream,
);

/// The transport, what the server writes to, and what it reads from.
fn pair(room: usize) -> Pair {
    let (reader, server_out) = tokio::io::duplex(room);
    let (writer, server_in) = tokio::io::duplex(room);
    (LineTransport::new(reader, writer), server_out, server_in)
}

fn ping(id: i64) -> ClientJsonRpcMessage {
    let request = ClientRequest::PingRequest(PingRequest::default());
    JsonRpcMessage::request(request, RequestId::Number(id))
}

/// Sends through the trait, whose futures outlive the borrow of the transport.
fn begin<T: Transport<RoleClient, Error = io::Error>>(
    transport: &mut T,
    message: ClientJsonRpcMessage,
) -> Pin<Box<dyn Future<Output = io::Result<()>> + Send>> {
    Box::pin(transport.send(message))
}

#[tokio::test]
async fn lines_that_are_not_messages_are_skipped() {
    let (mut transport, mut server, _input) = pair(4096);
    transport.send(ping(7)).await.unwrap();
    server
        .write_all(b"Starting up...\n\n[1,2]\n{\"level\": 30}\n{broken\n")
        .await
        .unwrap();
    server
        .write_all(b"  {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\r\n")
        .await
        .unwrap();
    drop(server);
    let Some(JsonRpcMessage::Response(response)) = transport.receive().await else {
        panic!("no response")
    };
    assert_eq!(response.id, RequestId::Number(7));
    assert!(transport.receive().await.is_none());
}

#[tokio::test]
async fn a_line_without_end_fails_the_calls_in_flight_and_keeps_memory_bounded() {
    let (mut transport, mut server, _input) = pair(1 << 20);
    transport.send(ping(1)).await.unwrap();
    let flood = async move {
        let chunk = vec![b'x'; 1 << 20];
        for _ in 0..64 {
            server.write_all(&chunk).await.unwrap();
        }
        server
            .write_all(b"\n{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}\n")
            .await
            .unwrap();
    };
    let (messages, ()) = tokio::join!(
        async {
            let first = transport.receive().await;
            transport.send(ping(2)).await.unwrap();
            (first, transport.receive().await)
        },
        flood
    );
    let (Some(JsonRpcMessage::Error(error)), Some(JsonRpcMessage::Response(next))) = messages
    else {
        panic!("{messages:?}")
    };
    assert_eq!(error.id, Some(RequestId::Number(1)));
    assert!(
        error.error.message.contains("16 MiB"),
        "{}",
        error.error.message
    );
    assert_eq!(next.id, RequestId::Number(2));
    assert!(transport.reader.buffer.capacity() < 2 * MAX_LINE + READ_CHUNK);
}

#[tokio::test]
async fn messages_are_written_whole_and_in_order_through_a_narrow_pipe() {
    let (mut transport, _output, mut server) = pair(16);
    let sends: Vec<_> = (0..20).map(|id| begin(&mut transport, ping(id))).collect();
    let reading = async {
        let mut text = String::new();
        while text.lines().count() < 20 || !text.ends_with('\n') {
            let mut chunk = [0; 64];
            let count = server.read(&mut chunk).await.unwrap();
            text.push_str(std::str::from_utf8(&chunk[..count]).unwrap());
        }
        text
    };
    let (text, sent) = tokio::join!(reading, futures::future::join_all(sends));
    assert!(sent.into_iter().all(|result| result.is_ok()));
    for (number, line) in text.lines().enumerate() {
        let message: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(message["id"], number);
    }
}

#[tokio::test]
async fn closing_ends_the_servers_input() {
    let (mut transport, _output, mut server) = pair(64);
    transport.close().await.unwrap();
    assert_eq!(server.read(&mut [0; 8]).await.unwrap(), 0);
    let error = transport.send(ping(1)).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotConnected);
}

#[tokio::test]
async fn a_request_of_the_server_is_not_taken_for_an_answer() {
    let (mut transport, mut server, _input) = pair(4096);
    transport.send(ping(5)).await.unwrap();
    server
        .write_all(b"{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"ping\"}\n")
        .await
        .unwrap();
    assert!(matches!(
        transport.receive().await,
        Some(JsonRpcMessage::Request(_))
    ));
    assert!(transport.in_flight.contains_key(&RequestId::Number(5)));
}

#[tokio::test]
async fn only_requests_are_remembered() {
    let (mut transport, _output, _input) = pair(4096);
    let notification =
        ClientNotification::InitializedNotification(InitializedNotification::default());
    transport
        .send(JsonRpcMessage::notification(notification))
        .await
        .unwrap();
    let answer = JsonRpcMessage::response(ClientResult::empty(()), RequestId::Number(1));
    transport.send(answer).await.unwrap();
    assert!(transport.in_flight.is_empty());
}

#[tokio::test]
async fn answers_to_nothing_are_skipped() {
    let (mut transport, mut server, _input) = pair(4096);
    transport.send(ping(5)).await.unwrap();
    server
        .write_all(b"{\"jsonrpc\":\"2.0\",\"id\":6,\"result\":{}}\n")
        .await
        .unwrap();
    server
        .write_all(b"{\"jsonrpc\":\"2.0\",\"id\":\"5\",\"result\":{}}\n")
        .await
        .unwrap();
    let Some(JsonRpcMessage::Response(response)) = transport.receive().await else {
        panic!("no response")
    };
    assert_eq!(response.id, RequestId::String("5".into()));
    assert!(transport.in_flight.is_empty());
}
