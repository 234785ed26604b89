// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_FABRIC_PEERS_HPP
#define CAUSEWAY_TESTS_SUPPORT_FABRIC_PEERS_HPP

// Fabrics over real loopback sockets in one process, each with an owner that writes down what it is told.

#include <causeway/net/asio_fabric.hpp>
#include <causeway/net/asio_meeting.hpp>
#include <causeway/net/asio_stream.hpp>
#include <causeway/net/codec.hpp>
#include <causeway/net/frame.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/tcp_peers.hpp"

namespace support {

/// Waits until `done`, which is asked with the fabric's lock held.
inline bool until(fabric& f, const std::function<bool()>& done) {
  const auto outcome = f.block(done, soon());
  return outcome && *outcome;
}

inline std::vector<std::byte> words(const std::string& text) {
  const auto view = std::as_bytes(std::span{text.data(), text.size()});
  return {view.begin(), view.end()};
}

/// One fabric and what it was told. The members are read inside `until` and `locked`.
class fabric_peer final : public fabric_events {
 public:
  struct seen {
    peer_id id = 0;
    std::string address;
    int ups = 0;
    int downs = 0;
    std::string last_down;
    std::vector<std::string> control;
  };
  std::map<peer_index, seen> links;
  std::vector<std::pair<std::string, error>> unreachable;
  std::vector<std::string> order;  // every event, in a word
  int wakes = 0;
  bool orderly = true;  // a down followed every up; assertions belong to the test's own thread
  std::function<void(peer_index)> when_up;
  std::function<void(peer_index, const std::string&)> when_told;

  /// `close_grace`: short, since most tests leave peers that do not answer.
  explicit fabric_peer(peer_id id, fabric_options options = {}, duration close_grace = std::chrono::milliseconds{200}) {
    options.id = id;
    if (options.run_id == 0) options.run_id = test_run;
    options.transport.close_grace = close_grace;
    auto made = open_fabric(endpoint{}, std::move(options));
    REQUIRE(made);
    net = std::move(*made);
    net->attach(this);
  }
  ~fabric_peer() override {
    if (net) net->attach(nullptr);
    CHECK(orderly);
  }
  fabric_peer(const fabric_peer&) = delete;
  fabric_peer& operator=(const fabric_peer&) = delete;

  void on_up(peer_index link, peer_id id, const std::string& address) override {
    seen& s = links[link];
    orderly = orderly && s.ups == s.downs;
    s.id = id;
    s.address = address;
    ++s.ups;
    order.push_back("up " + std::to_string(id));
    if (when_up) when_up(link);
  }
  void on_down(peer_index link, const error& why) override {
    seen& s = links[link];
    ++s.downs;
    orderly = orderly && s.ups == s.downs;
    s.last_down = why.message;
    order.push_back("down " + std::to_string(s.id));
  }
  void on_unreachable(const std::string& address, const error& why) override {
    unreachable.emplace_back(address, why);
    order.push_back("unreachable");
  }
  void on_control(peer_index link, std::span<const std::byte> message) override {
    const std::string text{reinterpret_cast<const char*>(message.data()), message.size()};
    links[link].control.push_back(text);
    order.push_back("control");
    if (when_told) when_told(link, text);
  }
  void on_wake() override { ++wakes; }

  [[nodiscard]] std::optional<peer_index> link_to(peer_id id) const {
    for (const auto& [link, s] : links) {
      if (s.id == id && s.ups > s.downs) return link;
    }
    return std::nullopt;
  }
  void dial(const std::string& address) {
    net->locked([&] { net->dial(address); });
  }
  void post(peer_index link, const std::string& text, bool bulk = false) {
    net->locked([&] { net->post(link, words(text), bulk); });
  }
  peer_index wait_up(peer_id id) {
    std::optional<peer_index> found;
    REQUIRE(until(*net, [&] { return (found = link_to(id)).has_value(); }));
    return *found;
  }

  std::shared_ptr<asio_fabric> net;
};

/// A peer of a fabric made of a plain blocking socket.
class raw_fabric_peer {
 public:
  raw_fabric_peer(const std::string& at, peer_id id, std::uint64_t incarnation = 500)
      : socket{*parse_endpoint(at)}, id_{id}, incarnation_{incarnation} {}

  static frame_header header(frame_kind kind, std::size_t length, std::uint64_t run = test_run) {
    frame_header h;
    h.kind = kind;
    h.run_id = run;
    h.chunk_length = static_cast<std::uint32_t>(length);
    return h;
  }
  static std::vector<std::byte> frame(frame_kind kind, const std::vector<std::byte>& body, std::uint64_t run = test_run) {
    const auto head = encode_header(header(kind, body.size(), run));
    std::vector<std::byte> all{head.begin(), head.end()};
    all.insert(all.end(), body.begin(), body.end());
    return all;
  }

  [[nodiscard]] net::detail::introduction introduction() const {
    net::detail::introduction us;
    us.id = id_;
    us.incarnation = incarnation_;
    us.nonce = nonce;
    us.chunk = 1U << 20U;
    us.host = "127.0.0.1";
    us.port = 1;
    return us;
  }
  void say_meet() { socket.write(frame(frame_kind::meet, introduction().encode())); }
  /// Reads the other side's introduction. False at the end of the connection; a refusal goes to `refusal`.
  bool hear_meet() {
    std::vector<std::byte> body;
    const auto h = socket.read(&body);
    if (h && h->kind == frame_kind::refused) refusal = net::detail::read_refusal("", body);
    if (!h || h->kind != frame_kind::meet) return false;
    const auto decoded = net::detail::introduction::decode(body);
    REQUIRE(decoded);
    them = *decoded;
    return true;
  }
  void say_want(std::uint64_t last, bool alive) {
    const net::detail::wish w{.nonce = them.nonce, .last = last, .alive = alive ? std::uint8_t{1} : std::uint8_t{0}};
    socket.write(frame(frame_kind::want, w.encode()));
  }
  /// The number that the other side gives the link; 0 when it declines; nothing at the end of the connection.
  std::optional<std::uint64_t> hear_take() {
    std::vector<std::byte> body;
    const auto h = socket.read(&body);
    if (!h || h->kind != frame_kind::take) return std::nullopt;
    const auto d = net::detail::decision::decode(body);
    REQUIRE(d);
    REQUIRE(d->nonce == nonce);
    return d->serial;
  }
  /// With an id above the other side's.
  std::optional<std::uint64_t> connect(std::uint64_t last = 0, bool alive = false) {
    say_meet();
    if (!hear_meet()) return std::nullopt;
    say_want(last, alive);
    return hear_take();
  }
  /// The header of a control message; its digest and content follow.
  [[nodiscard]] std::vector<std::byte> control(const std::string& text, std::uint64_t sequence) const {
    frame_header h = header(frame_kind::control, text.size());
    h.sender = static_cast<std::uint32_t>(id_);
    h.sequence = sequence;
    h.message_length = text.size();
    const auto content = words(text);
    net::detail::outgoing_frame out;
    out.begin(h, content, true);
    std::vector<std::byte> all{out.header.begin(), out.header.end()};
    all.insert(all.end(), content.begin(), content.end());
    return all;
  }

  /// Makes this connection a data stream of the link with that number.
  void open_stream(std::uint64_t serial) {
    const net::detail::stream_request request{{id_, incarnation_, serial}, 0};
    socket.write(frame(frame_kind::stream, request.encode()));
    const auto answer = socket.read();
    REQUIRE(answer);
    REQUIRE(answer->kind == frame_kind::stream_ok);
  }
  /// The header and digest of a message that is one chunk; its content follows.
  [[nodiscard]] std::vector<std::byte> chunk(const message_id& id, std::uint64_t sequence,
                                             const std::vector<std::byte>& content) const {
    frame_header h = data_header(id, sequence, content.size(), 0, content.size());
    h.sender = static_cast<std::uint32_t>(id_);
    net::detail::outgoing_frame out;
    out.begin(h, content, true);
    return {out.header.begin(), out.header.end()};
  }

  raw_peer socket;
  net::detail::introduction them;
  std::optional<error> refusal;
  std::uint64_t nonce = 99;

 private:
  peer_id id_;
  std::uint64_t incarnation_;
};

/// Two fabrics with a link: 1 and 2.
struct fabric_pair {
  explicit fabric_pair(const fabric_options& options = {}, duration close_grace = std::chrono::milliseconds{200})
      : a{1, options, close_grace}, b{2, options, close_grace} {
    a.dial(b.net->address());
    to_b = a.wait_up(2);
    to_a = b.wait_up(1);
  }
  fabric_peer a;
  fabric_peer b;
  peer_index to_b = 0;
  peer_index to_a = 0;
};

inline message_id in_epoch(std::uint32_t epoch, std::uint64_t step = 5) {
  return {.channel = 1, .epoch = epoch, .step = step, .parent = 9};
}

/// Sends from one fabric to the other and compares.
inline bool passes(fabric& from, peer_index to, fabric& at, peer_index of, std::size_t size, std::uint64_t step) {
  const auto sent = pattern(size, 3);
  std::vector<std::byte> got(size);
  const auto in = at.receive(of, in_epoch(4, step), got);
  const auto out = from.send(to, in_epoch(4, step), sent);
  bool went = false;
  std::thread other{[&] { went = from.wait(out, soon()).has_value(); }};
  const auto outcome = at.wait(in, soon());
  other.join();
  return went && outcome && got == sent;
}

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_FABRIC_PEERS_HPP
