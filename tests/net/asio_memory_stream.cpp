// SPDX-License-Identifier: Apache-2.0
#include <causeway/net/asio_memory_stream.hpp>

#include "support/catch.hpp"
#include "support/fabric_peers.hpp"
#include "support/tcp_peers.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace support;
using causeway::owned_descriptor;
using net::detail::memory_offer;
using net::detail::memory_stream;

namespace {

constexpr std::size_t large = std::size_t{3} << 20U;  // three chunks, more than a ring

message_id step(std::uint64_t n) { return {.channel = 1, .epoch = 0, .step = n, .parent = 9}; }

std::size_t send_to(memory_stream& s, std::span<const std::byte> bytes, std::error_code& failure) {
  return s.send({asio::const_buffer{bytes.data(), bytes.size()}, asio::const_buffer{}}, failure);
}
std::size_t receive_from(memory_stream& s, std::span<std::byte> bytes, std::error_code& failure) {
  return s.receive({asio::mutable_buffer{bytes.data(), bytes.size()}, asio::mutable_buffer{}}, failure);
}

/// Blocks until the other side has something to say.
void wait_for_wake(memory_stream& s) {
  pollfd what{s.socket().native_handle(), POLLIN, 0};
  (void)::poll(&what, 1, 300'000);
  s.hear();
}

/// One thread plays both sides.
struct stream_pair {
  stream_pair() {
    auto offer = memory_offer::make();
    REQUIRE(offer);
    auto taken = memory_offer::take(offer->number(), io.get_executor());
    REQUIRE(taken);
    auto accepted = offer->accept(io.get_executor());
    REQUIRE(accepted);
    a = std::move(*accepted);
    b = std::move(*taken);
  }
  asio::io_context io;
  std::unique_ptr<memory_stream> a;
  std::unique_ptr<memory_stream> b;
};

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all{"/proc/self/fd"};
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

/// Goes through three exchanges, after which both directions have moved if they ever do: the offer goes out behind the
/// first chunk, its answer comes before the second message's, and the third message is behind the answer to that.
template <class A, class B>
void exchange_thrice(A& a, peer_index to_b, B& b, peer_index to_a) {
  for (std::uint64_t n = 1; n <= 3; ++n) {
    const bool forth = n != 2;
    const auto sent = pattern(large, static_cast<std::uint32_t>(n));
    std::vector<std::byte> got(large);
    if (forth) {
      // Two messages: when the second is there, what was said behind the first chunk was heard.
      std::vector<std::byte> again(large);
      const auto in = b.receive(to_a, step(n), got);
      const auto in_again = b.receive(to_a, step(n + 100), again);
      std::thread sender{[&] {
        const auto out = a.send(to_b, step(n), sent);
        const auto out_again = a.send(to_b, step(n + 100), sent);
        (void)a.wait(out, soon());
        (void)a.wait(out_again, soon());
      }};
      const bool arrived = b.wait(in, soon()).has_value() && b.wait(in_again, soon()).has_value();
      sender.join();
      REQUIRE(arrived);
      CHECK((again == sent));
    } else {
      const auto in = a.receive(to_b, step(n), got);
      std::thread sender{[&] { (void)b.wait(b.send(to_a, step(n), sent), soon()); }};
      const bool arrived = a.wait(in, soon()).has_value();
      sender.join();
      REQUIRE(arrived);
    }
    CHECK((got == sent));
  }
}

std::size_t times(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

const std::string moved = "we talk through shared memory";

}  // namespace

TEST_CASE("memory stream: handed over, both ways, to the end", "[net][fast]") {
  stream_pair pair;
  const auto sent = pattern(1000, 1);
  std::vector<std::byte> got(2000);
  std::error_code failure;
  CHECK(receive_from(*pair.b, got, failure) == 0);
  CHECK(failure == asio::error::would_block);
  failure.clear();
  for (auto* const from : {pair.a.get(), pair.b.get()}) {
    memory_stream& to = from == pair.a.get() ? *pair.b : *pair.a;
    REQUIRE(to.sleep_until_readable());
    CHECK(send_to(*from, sent, failure) == 1000);
    wait_for_wake(to);
    CHECK(receive_from(to, got, failure) == 1000);
    CHECK_FALSE(failure);
    CHECK((std::equal(sent.begin(), sent.end(), got.begin())));
  }
  // What was said before the end is still heard.
  CHECK(send_to(*pair.a, sent, failure) == 1000);
  pair.a.reset();
  wait_for_wake(*pair.b);
  CHECK(pair.b->gone());
  CHECK_FALSE(pair.b->sleep_until_readable());
  CHECK(receive_from(*pair.b, got, failure) == 1000);
  CHECK(receive_from(*pair.b, got, failure) == 0);
  CHECK(failure == asio::error::eof);
  failure.clear();
  CHECK(send_to(*pair.b, sent, failure) == 0);
  CHECK(failure == asio::error::broken_pipe);
}

TEST_CASE("memory stream: who is not there, hands nothing over, or comes unasked is passed over", "[net][fast]") {
  asio::io_context io;
  CHECK(memory_offer::take(12345, io.get_executor()).error().code == errc::not_found);
  auto offer = memory_offer::make();
  REQUIRE(offer);
  CHECK(offer->accept(io.get_executor()).error().code == errc::not_found);
  // Names are public (/proc/net/unix): a stranger connects before the one that was meant, and says something else.
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  const int n = std::snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "causeway-%016llx",
                              static_cast<unsigned long long>(offer->number()));
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<std::size_t>(n));
  std::vector<owned_descriptor> strangers;
  for (int i = 0; i < 3; ++i) {
    strangers.emplace_back(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(::connect(strangers.back().get(), reinterpret_cast<const sockaddr*>(&name), length) == 0);
    if (i > 0) REQUIRE(::send(strangers.back().get(), "x", 1, 0) == 1);
  }
  const auto taken = memory_offer::take(offer->number(), io.get_executor());
  REQUIRE(taken);
  const auto accepted = offer->accept(io.get_executor());
  REQUIRE(accepted);
  std::error_code failure;
  const auto sent = pattern(10, 1);
  std::vector<std::byte> got(10);
  CHECK(send_to(**taken, sent, failure) == 10);
  CHECK(receive_from(**accepted, got, failure) == 10);
  CHECK((got == sent));
}

TEST_CASE("memory stream: a process that is killed at any moment leaves whole bytes, an end, and nothing else",
          "[net][fast]") {
  std::mt19937_64 random{11};
  const std::size_t before = open_descriptors();
  for (int round = 0; round < 20; ++round) {
    asio::io_context io;
    auto offer = memory_offer::make();
    REQUIRE(offer);
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    const owned_descriptor here{ends[0]};
    owned_descriptor there{ends[1]};
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {  // writes for ever
      auto mine = memory_offer::take(offer->number(), io.get_executor());
      if (!mine || ::write(ends[1], "x", 1) != 1) ::_exit(1);
      const auto sent = pattern(251 * 256, 0);  // repeats itself
      std::error_code failure;
      for (std::size_t at = 0;;) {
        at = (at + send_to(**mine, std::span{sent}.subspan(at), failure)) % sent.size();
        if (failure == asio::error::would_block && (*mine)->sleep_until_writable()) wait_for_wake(**mine);
        if (failure == asio::error::broken_pipe) ::_exit(1);
        failure.clear();
      }
    }
    there.close();
    char word = 0;
    REQUIRE(::read(here.get(), &word, 1) == 1);  // it has handed its memory over
    const auto accepted = offer->accept(io.get_executor());
    REQUIRE(accepted);
    memory_stream& mine = **accepted;
    const auto expected = pattern(251 * 256, 0);
    const std::size_t kill_after = random() % (std::size_t{8} << 20U);
    std::vector<std::byte> got(50'000);
    std::size_t read = 0;
    bool good = true;
    bool killed = false;
    for (std::error_code failure; failure != asio::error::eof;) {
      failure.clear();
      const std::size_t n = receive_from(mine, got, failure);
      for (std::size_t i = 0; i < n; ++i) good = good && got[i] == expected[(read + i) % expected.size()];
      read += n;
      if (read >= kill_after && !std::exchange(killed, true)) ::kill(child, SIGKILL);
      if (failure == asio::error::would_block && mine.sleep_until_readable()) wait_for_wake(mine);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(good);
    CHECK(WIFSIGNALED(status));
    CHECK(read >= kill_after);
  }
  CHECK(open_descriptors() == before);
  if (const std::filesystem::path files{"/dev/shm"}; std::filesystem::exists(files)) {
    for (const auto& file : std::filesystem::directory_iterator{files}) {
      CHECK(file.path().filename().string().find("causeway") == std::string::npos);
    }
  }
}

TEST_CASE("memory stream: the links of a mesh move when a large message comes, and only if both may", "[net][fast]") {
  const log_lines log;
  const bool first = GENERATE(true, false);
  const bool second = GENERATE(true, false);
  CAPTURE(first, second);
  auto options = test_options();
  options.transport.log = log.sink();
  std::vector<listener> at;
  std::vector<endpoint> addresses;
  for (int i = 0; i < 2; ++i) {
    at.push_back(std::move(*open_listener({})));
    addresses.push_back(at.back().address());
  }
  std::vector<std::optional<net::membership>> members(2);
  auto theirs = options;
  theirs.transport.shared_memory = second;
  options.transport.shared_memory = first;
  std::thread other{[&] {
    if (auto made = connect_static(std::move(at[1]), 1, addresses, theirs)) members[1] = std::move(*made);
  }};
  if (auto made = connect_static(std::move(at[0]), 0, addresses, options)) members[0] = std::move(*made);
  other.join();
  REQUIRE((members[0] && members[1]));
  exchange_thrice(members[0]->transport, 1, members[1]->transport, 0);
  CHECK(times(log.text(), moved) == (first && second ? 2U : 0U));
  CHECK(members[0]->transport.stats().frames_rejected + members[1]->transport.stats().frames_rejected == 0);
}

TEST_CASE("memory stream: small messages stay on TCP", "[net][fast]") {
  const log_lines log;
  auto options = test_options();
  options.transport.log = log.sink();
  auto peers = tcp_mesh(2, options);
  for (std::uint64_t n = 0; n < 20; ++n) {
    const auto sent = pattern(net::detail::shared_from_bytes - 1, 1);
    std::vector<std::byte> got(sent.size());
    const auto in = peers[1].receive(0, step(n), got);
    REQUIRE(peers[0].wait(peers[0].send(1, step(n), sent), soon()));
    REQUIRE(peers[1].wait(in, soon()));
  }
  CHECK(times(log.text(), moved) == 0);
}

TEST_CASE("memory stream: a fabric's data moves, its control messages stay", "[net][fast]") {
  const log_lines log;
  fabric_options options;
  options.transport.log = log.sink();
  fabric_pair pair{options};
  exchange_thrice(*pair.a.net, pair.to_b, *pair.b.net, pair.to_a);
  CHECK(times(log.text(), moved) == 2);
  pair.a.post(pair.to_b, "still here");
  CHECK(until(*pair.b.net, [&] { return pair.b.links[pair.to_a].control.size() == 1; }));
  pair.a.net->close();
  CHECK(until(*pair.b.net, [&] { return pair.b.links[pair.to_a].downs == 1; }));
  pair.b.net->locked([&] { CHECK(pair.b.links[pair.to_a].last_down == "it left the run"); });
}

TEST_CASE("memory stream: a full ring waits for its reader, and one that pauses goes on", "[net][fast]") {
  auto options = test_options();
  options.transport.unexpected_bytes = std::size_t{1} << 20U;
  auto peers = tcp_mesh(2, options);
  exchange_thrice(peers[0], 1, peers[1], 0);
  const auto sent = pattern(large, 7);
  std::vector<operation> sends;
  for (std::uint64_t n = 0; n < 8; ++n) sends.push_back(peers[0].send(1, step(1000 + n), sent));
  CHECK(peers[0].wait(sends.back(), steady_clock{}.now()).error().code == errc::timeout);
  sends.pop_back();
  std::thread sender{[&] {
    for (const operation op : sends) (void)peers[0].wait(op, soon());
  }};
  bool good = true;
  for (std::uint64_t n = 0; n < 7; ++n) {
    std::vector<std::byte> got(large);
    good = good && peers[1].wait(peers[1].receive(0, step(1000 + n), got), soon()).has_value() && got == sent;
  }
  sender.join();
  CHECK(good);
}

TEST_CASE("memory stream: a peer that leaves or is dropped ends waits on shared memory at once", "[net][fast]") {
  auto peers = tcp_mesh(2);
  exchange_thrice(peers[0], 1, peers[1], 0);
  std::vector<std::byte> buffer(100);
  const auto op = peers[0].receive(1, step(50), buffer);
  if (GENERATE(true, false)) {
    peers[1].close();
    CHECK(peers[0].wait(op, soon()).error().text() == "peer 1: it left the run [peer_lost]");
  } else {
    peers[1].drop(0, "voted out");
    CHECK(peers[0].wait(op, soon()).error().code == errc::peer_lost);
  }
}

TEST_CASE("memory stream: a peer that breaks the rules of moving is dropped", "[net][fast]") {
  half_real pair;
  const int what = GENERATE(range(0, 6));
  CAPTURE(what);
  std::vector<std::byte> buffer(10);
  const auto op = pair.transport->receive(1, step(2), buffer);
  const auto header = [](frame_kind kind) {
    frame_header h;
    h.kind = kind;
    h.run_id = test_run;
    h.sender = 1;
    return h;
  };
  asio::io_context io;
  std::unique_ptr<memory_stream> memory;
  if (what == 0) {  // nobody offered
    pair.peer->write(header(frame_kind::memory_taken));
  } else {
    const auto body = pattern(100'000, 1);
    pair.peer->write(data_header(step(1), 0, body.size(), 0, body.size()), body);
    const auto offer = pair.peer->read();
    REQUIRE(offer);
    REQUIRE(offer->kind == frame_kind::memory_offer);
    if (what >= 3) memory = std::move(*memory_offer::take(offer->id.step, io.get_executor()));
  }
  if (what == 1) pair.peer->write(header(frame_kind::memory_taken));  // nothing was handed over
  if (what == 2) pair.peer->write(header(frame_kind::memory_offer));  // the smaller number offers
  std::error_code failure;
  if (what == 3) {  // no frame
    REQUIRE(send_to(*memory, std::vector<std::byte>(200), failure) == 200);
    pair.peer->write(header(frame_kind::memory_taken));
  }
  if (what == 4) {  // it goes on over TCP; behind a small message more is read at once than a header
    std::vector<std::byte> small(10);
    const auto in = pair.transport->receive(1, step(3), small);
    pair.peer->write(data_header(step(3), 1, 10, 0, 10), small);
    REQUIRE(pair.transport->wait(in, soon()));
    const auto taken = encode_header(header(frame_kind::memory_taken));
    const auto more = encode_header(header(frame_kind::heartbeat));
    std::vector<std::byte> both{taken.begin(), taken.end()};
    both.insert(both.end(), more.begin(), more.end());
    pair.peer->write(both);
  }
  if (what == 5) {  // its process ends
    pair.peer->write(header(frame_kind::memory_taken));
    memory.reset();
  }
  const auto outcome = pair.transport->wait(op, soon());
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().code == errc::peer_lost);
  CHECK(pair.transport->stats().frames_rejected == (what == 5 ? 0U : 1U));
}
