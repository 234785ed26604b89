// SPDX-License-Identifier: Apache-2.0
#include <causeway/net/mpi_transport.hpp>

#include <causeway/collective/all_reduce.hpp>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "support/mpi.hpp"

using namespace causeway;
using namespace causeway::net;
using support::bytes_of;
using support::job;
using support::soon;

namespace {

const message_id hello{.channel = 1, .epoch = 2, .step = 3, .parent = 4};

/// Receives one message.
struct inbox {
  explicit inbox(std::size_t room = 100) : buffer(room) {}
  std::vector<std::byte> buffer;
  result<std::string> take(mpi_transport& t, operation op, time_point deadline = soon()) {
    CAUSEWAY_ASSIGN(const std::size_t n, t.wait(op, deadline));
    return std::string{reinterpret_cast<const char*>(buffer.data()), n};
  }
};

/// Rank 1 has come so far when rank 0 has; both go on from here.
void meet(mpi_transport& t, std::uint64_t number) {
  if (t.self() > 1) return;
  const message_id id{.channel = 77, .step = number};
  std::byte word{};
  const auto out = t.send(1 - t.self(), id, {&word, 1});
  std::byte in{};
  CHECK(t.wait(t.receive(1 - t.self(), id, {&in, 1}), soon()));
  CHECK(t.wait(out, soon()));
}

/// Longer than what travels in a word, and than what MPI itself sends unasked.
std::string lengthy(char fill, std::size_t bytes = 3'000'001) { return std::string(bytes, fill); }

}  // namespace

TEST_CASE("mpi transport: messages of equal id arrive in order, whichever side starts first", "[net]") {
  const std::size_t kept = GENERATE(std::size_t{64} << 20U, std::size_t{0});
  auto t = support::open_transport({.kept_bytes = kept});
  const std::string texts[] = {"one", lengthy('2'), "three", lengthy('4'), ""};
  if (t.self() == 0) {
    meet(t, 1);  // rank 1 has started to receive the first
    std::vector<operation> sends;
    for (const auto& text : texts) sends.push_back(t.send(1, hello, bytes_of(text)));
    meet(t, 2);
    for (std::size_t i = 0; i < sends.size(); ++i) CHECK(t.wait(sends[i], soon()).value() == texts[i].size());
  }
  if (t.self() == 1) {
    std::vector<inbox> boxes(std::size(texts), inbox{3'100'000});
    std::vector<operation> receives{t.receive(0, hello, boxes[0].buffer), t.receive(0, hello, boxes[1].buffer)};
    meet(t, 1);
    meet(t, 2);
    for (std::size_t i = 2; i < boxes.size(); ++i) receives.push_back(t.receive(0, hello, boxes[i].buffer));
    for (std::size_t i = boxes.size(); i-- > 0;) {
      const auto got = boxes[i].take(t, receives[i]);
      REQUIRE(got);
      CHECK((*got == texts[i]));  // not printed
    }
  }
}

TEST_CASE("mpi transport: channel, epoch, step and sender keep messages apart", "[net]") {
  auto t = support::open_transport();
  const message_id ids[] = {{.channel = 9, .epoch = 2, .step = 3, .parent = 4},
                            {.channel = 1, .epoch = 9, .step = 3, .parent = 4},
                            {.channel = 1, .epoch = 2, .step = 9, .parent = 4}};
  const std::string texts[] = {"channel", lengthy('e'), "step"};
  if (t.self() == 0) {
    std::vector<operation> sends;
    for (std::size_t i = 0; i < 3; ++i) sends.push_back(t.send(1, ids[i], bytes_of(texts[i])));
    for (const auto op : sends) CHECK(t.wait(op, soon()));
  }
  if (t.self() == 1) {
    inbox wrong;
    const auto nothing = t.wait(t.receive(0, hello, wrong.buffer), time_point{});
    CHECK(nothing.error().code == errc::timeout);
    CHECK(nothing.error().where == "peer 0");
    for (const std::size_t i : {2U, 0U, 1U}) {
      inbox box{3'100'000};
      const auto got = box.take(t, t.receive(0, ids[i], box.buffer));
      REQUIRE(got);
      CHECK((*got == texts[i]));
    }
  }
}

TEST_CASE("mpi transport: another parent and too long a message are refused, and the next one arrives", "[net]") {
  auto t = support::open_transport();
  const std::size_t length = GENERATE(std::size_t{10}, std::size_t{3'000'001});
  const std::string text = lengthy('x', length), last = "last";
  message_id other = hello;
  other.parent = 5;
  if (t.self() == 0) {
    const auto a = t.send(1, other, bytes_of(text));
    const auto b = t.send(1, hello, bytes_of(text));
    const auto c = t.send(1, hello, bytes_of(last));
    for (const auto op : {a, b, c}) CHECK(t.wait(op, soon()));
  }
  if (t.self() == 1) {
    inbox box{length - 1}, small{4};
    CHECK(box.take(t, t.receive(0, hello, box.buffer)).error().code == errc::wrong_parent);
    CHECK(box.take(t, t.receive(0, hello, box.buffer)).error().code == errc::too_large);
    const auto got = small.take(t, t.receive(0, hello, small.buffer));
    REQUIRE(got);
    CHECK(*got == last);
    CHECK(t.stats().frames_rejected == 2);
  }
}

TEST_CASE("mpi transport: a receive that timed out leaves its message to the next", "[net]") {
  auto t = support::open_transport();
  const std::string text = lengthy('y');
  if (t.self() == 0) {
    meet(t, 1);
    CHECK(t.wait(t.send(1, hello, bytes_of(text)), soon()));
  }
  if (t.self() == 1) {
    inbox box{3'100'000};
    CHECK(box.take(t, t.receive(0, hello, box.buffer), time_point{}).error().code == errc::timeout);
    meet(t, 1);
    const auto got = box.take(t, t.receive(0, hello, box.buffer));
    REQUIRE(got);
    CHECK((*got == text));
  }
}

TEST_CASE("mpi transport: what names nobody, or is not under way, is an error", "[net]") {
  auto t = support::open_transport();
  inbox box;
  for (const peer_index who : {t.self(), t.size()}) {
    CHECK(t.wait(t.receive(who, hello, box.buffer), soon()).error().code == errc::invalid_argument);
    CHECK(t.wait(t.send(who, hello, box.buffer), soon()).error().code == errc::invalid_argument);
  }
  CHECK(t.wait(12345, soon()).error().code == errc::invalid_argument);
  CHECK(t.done(12345));
}

TEST_CASE("mpi transport: done moves bytes, says what is there, and counts them", "[net]") {
  auto t = support::open_transport();
  const std::string text = lengthy('z');
  const std::size_t before = t.stats().bytes_sent;
  if (t.self() == 0) {
    const auto op = t.send(1, hello, bytes_of(text));
    CHECK(t.wait_any(std::array{op}, soon()));
    CHECK(t.wait(op, time_point{}).value() == text.size());
    CHECK(t.stats().bytes_sent - before > text.size());
    CHECK(t.stats().bytes_sent - before < text.size() + 200);
  }
  if (t.self() == 1) {
    inbox box{text.size()};
    const auto op = t.receive(0, hello, box.buffer);
    CHECK(t.describe_waits().starts_with("receiving from peer 0, channel 1, epoch 2, step 3"));
    const time_point end = soon();
    while (!t.done(op) && steady_clock{}.now() < end) {
    }
    const auto got = box.take(t, op, time_point{});
    REQUIRE(got);
    CHECK((*got == text));
    CHECK(t.stats().bytes_received > text.size());
    CHECK(t.describe_waits().empty());
  }
}

TEST_CASE("mpi transport: everybody sends much to everybody, and takes it in any order", "[net]") {
  auto t = support::open_transport({.kept_bytes = std::size_t{1} << 20U});
  constexpr std::size_t rounds = 8;
  const auto length = [](peer_index from, std::size_t round) {
    return (from + 1) * (round % 4 == 0 ? 7 : 150'000 * round);
  };
  std::vector<std::string> out;
  std::vector<operation> sends;
  for (std::size_t r = 0; r < rounds; ++r) out.push_back(lengthy(static_cast<char>('a' + r), length(t.self(), r)));
  for (std::size_t r = 0; r < rounds; ++r) {
    for (peer_index p = 0; p < t.size(); ++p) {
      if (p != t.self()) sends.push_back(t.send(p, {.channel = 5, .step = r}, bytes_of(out[r])));
    }
  }
  for (std::size_t r = rounds; r-- > 0;) {
    for (peer_index p = 0; p < t.size(); ++p) {
      if (p == t.self()) continue;
      inbox box{length(p, r)};
      const auto got = box.take(t, t.receive(p, {.channel = 5, .step = r}, box.buffer));
      REQUIRE(got);
      CHECK((*got == lengthy(static_cast<char>('a' + r), length(p, r))));
    }
  }
  for (const auto op : sends) CHECK(t.wait(op, soon()));
}

TEST_CASE("mpi transport: sums of all ranks go on side by side, with messages between", "[net]") {
  auto t = support::open_transport();
  CHECK(t.sums());
  const auto n = static_cast<float>(t.size());
  std::vector<float> first(100'000, static_cast<float>(t.self() + 1)), second(3, 0.5F);
  const std::size_t before = t.stats().bytes_sent;
  const auto one = t.sum(first);
  const auto two = t.sum(second);
  CHECK(t.describe_waits().starts_with("adding up with all ranks: 0 of 400000 bytes"));
  meet(t, 40);
  CHECK(t.wait(two, soon()).value() == 12);
  CHECK(t.wait(one, soon()).value() == 400'000);
  CHECK((first == std::vector<float>(100'000, n * (n + 1) / 2)));
  CHECK((second == std::vector<float>(3, n / 2)));
  CHECK(t.stats().bytes_sent - before >= 2 * std::size_t{400'000} / t.size() * (t.size() - 1));
  CHECK(t.wait(t.sum({}), soon()).value() == 0);
  CHECK(t.describe_waits().empty());
  CHECK_FALSE(support::open_transport({.own_sums = false}).sums());
}

TEST_CASE("mpi transport: a mean over all ranks is MPI's sum, unless the bits of messages are asked for", "[net]") {
  std::vector<float> mine(1000);
  for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = 1.0F / static_cast<float>(3 * i + 7 * job().rank() + 1);
  const auto mean = [&](bool own_sums, std::size_t& messages) {
    net::any_transport t{support::open_transport({.own_sums = own_sums})};
    std::vector<float> values = mine;
    const std::size_t before = t.stats().frames_sent;
    REQUIRE(collective::all_reduce_mean(t, {.channel = 3}, values, {.deadline = soon()}));
    messages = t.stats().frames_sent - before;
    return values;
  };
  std::size_t by_mpi = 0, by_us = 0;
  const auto a = mean(true, by_mpi), b = mean(false, by_us);
  CHECK(by_mpi == 0);
  CHECK(by_us > 0);
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(std::fabs(a[i] - b[i]) <= 1e-6F * std::fabs(b[i]));
  if (job().size() == 2) CHECK((a == b));  // there is one order only
}

TEST_CASE("mpi transport: infinity of one rank is an error of all", "[net]") {
  net::any_transport t{support::open_transport()};
  std::vector<float> values(10, 1.0F);
  if (job().rank() == 1) values[4] = std::numeric_limits<float>::infinity();
  const auto outcome = collective::all_reduce_mean(t, {.channel = 3}, values, {.deadline = soon()});
  REQUIRE(!outcome);
  CHECK(outcome.error().code == errc::non_finite);
}
