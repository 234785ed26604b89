// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/parameter_server.hpp>

#include <causeway/axis/every.hpp>
#include <causeway/axis/outer.hpp>
#include <causeway/collective/aggregator.hpp>
#include <causeway/comm/server_client.hpp>
#include <causeway/compress/block_int8.hpp>
#include <causeway/net/memory_transport.hpp>
#include <causeway/optim/sgd.hpp>

#include <limits>

#include "support/catch.hpp"

using namespace causeway;
using namespace causeway::comm::detail;

namespace {

using codec = compress::as_message<compress::block_int8>;
constexpr std::size_t length = 24;

/// A hub, peer 0, and a client that can say anything, peer 1; outer SGD with rate 1.
template <class Arrivals>
struct scene_of {
  net::memory_network network{3};
  net::any_transport hub_net{network.transport(0)};
  net::any_transport client_net{network.transport(1)};
  net::any_transport other_net{network.transport(2)};
  thread_pool pool{1};
  any_clock clock{};
  std::vector<std::string> lines;
  log_sink log{[this](severity, std::string_view text) { lines.emplace_back(text); }};
  std::vector<axis::fragment> cuts{{{{0, 16}}, {}, 16}, {{{16, 24}}, {}, 8}};
  axis::every trigger{};
  Arrivals arrivals{};
  collective::mean aggregator{};
  hub_rules<axis::every, Arrivals, codec, collective::mean> rules{trigger, arrivals, codec{}, aggregator};
  hub_terms terms{.transport = hub_net, .pool = pool, .clock = clock, .log = log, .cuts = cuts};
  parameter_server<axis::outer<optim::sgd>> server{axis::outer<optim::sgd>{1.0F}};

  scene_of() {
    const std::vector<net::peer_index> group{0, 1, 2};
    REQUIRE(server.open(terms, 0, group, std::vector<float>(length, 1.0F), 200));
  }

  /// A good push of fragment f with all values `value`.
  std::vector<std::byte> good(std::uint32_t f = 0, std::uint64_t number = 1, float value = 0.5F,
                              std::uint64_t samples = 4) {
    const std::vector<float> row(cuts[f].size, value);
    const auto about = terms.about(0, f);
    std::vector<std::byte> content(codec{}.most_bytes(about, row.size()));
    content.resize(codec{}.encode(about, row, content));
    auto bytes = with_header(push_header{.fragment = f, .number = number, .samples = samples}, content.size());
    std::copy(content.begin(), content.end(), bytes.begin() + sizeof(push_header));
    return bytes;
  }
  void hear(std::span<const std::byte> bytes) { server.hear(rules, terms, 1, bytes); }
  [[nodiscard]] std::vector<float> shared() { return {server.shared().begin(), server.shared().end()}; }
};

using scene = scene_of<axis::one_by_one>;

template <class F>
std::vector<std::byte> with(std::vector<std::byte> bytes, F&& change) {
  push_header h;
  std::memcpy(&h, bytes.data(), sizeof h);
  change(h);
  std::memcpy(bytes.data(), &h, sizeof h);
  return bytes;
}

}  // namespace

TEST_CASE("parameter server: a good push moves its fragment, and no other", "[comm][fast]") {
  scene s;
  s.hear(s.good());
  CHECK(s.lines.empty());
  for (std::size_t i = 0; i < length; ++i) CHECK(s.shared()[i] == Approx(i < 16 ? 0.5F : 1.0F).margin(0.01));
  s.hear(s.good(1));
  CHECK(s.shared()[20] == Approx(0.5F).margin(0.01));
  CHECK(s.server.take_applied(0) == std::pair<std::uint32_t, std::uint64_t>{1, 4});
  CHECK(s.server.take_applied(0).first == 0);
}

TEST_CASE("parameter server: a client that sends nonsense changes nothing, and is left out from then on", "[comm][fast]") {
  scene fresh;
  const auto good = fresh.good();
  std::vector<std::vector<std::byte>> bad;
  for (std::size_t n = 0; n < good.size(); ++n)
    bad.emplace_back(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(n));
  bad.push_back(good);
  bad.back().push_back(std::byte{0});
  bad.push_back(with(good, [](push_header& h) { h.word = hub_word::answer; }));
  bad.push_back(with(good, [](push_header& h) { h.word = static_cast<hub_word>(999); }));
  bad.push_back(with(good, [](push_header& h) {
    h.word = hub_word::waits;
    h.fragment = 2;
  }));
  bad.push_back(with(good, [](push_header& h) { h.fragment = 2; }));
  bad.push_back(with(good, [](push_header& h) { h.fragment = UINT32_MAX; }));
  bad.push_back(with(good, [](push_header& h) { h.number = 0; }));
  bad.push_back(with(good, [](push_header& h) { h.number = 2; }));
  bad.push_back(with(good, [](push_header& h) { h.speed = -1; }));
  bad.push_back(with(good, [](push_header& h) { h.speed = std::numeric_limits<double>::quiet_NaN(); }));
  bad.push_back(with(good, [](push_header& h) { h.sync_seconds = std::numeric_limits<double>::infinity(); }));
  for (std::size_t i = 0; i < bad.size(); ++i) {
    INFO("message " << i << " of " << bad[i].size() << " bytes");
    scene s;
    const auto before = s.shared();
    s.hear(bad[i]);
    CHECK(s.shared() == before);
    REQUIRE(s.lines.size() == 1);
    CHECK(s.lines[0].find("peer 1") != std::string::npos);
    // The others' pushes are applied, and the hub does not wait for this client any more.
    s.server.hear(s.rules, s.terms, 2, good);
    CHECK(s.shared() != before);
    s.server.hear(s.rules, s.terms, 0, with_header(push_header{.word = hub_word::done}, 0));
    CHECK_FALSE(s.server.is_over());
    s.server.hear(s.rules, s.terms, 2, with_header(push_header{.word = hub_word::done}, 0));
    CHECK(s.server.is_over());
  }
}

TEST_CASE("parameter server: a push that is not finite counts for nothing, and its client stays", "[comm][fast]") {
  for (const float value : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    scene s;
    const auto before = s.shared();
    s.hear(s.good(0, 1, value));
    CHECK(s.shared() == before);
    REQUIRE(s.lines.size() == 1);
    CHECK(s.lines[0].find("push 1 of fragment 0 counts for nothing: peer 1") != std::string::npos);
    for (const std::uint32_t other : {0U, 2U}) {
      s.server.hear(s.rules, s.terms, other, with_header(push_header{.word = hub_word::done}, 0));
    }
    CHECK_FALSE(s.server.is_over());
    s.hear(s.good(0, 2));
    CHECK(s.shared()[0] == Approx(0.5F).margin(0.01));
    CHECK(s.lines.size() == 1);
  }
}

TEST_CASE("parameter server: a push that is not finite has no share in a quorum", "[comm][fast]") {
  scene_of<axis::quorum> s;
  s.arrivals = {.least = 3, .gamma = 0};
  s.server.hear(s.rules, s.terms, 0, s.good(1, 1, 0.5F, 4));
  s.server.hear(s.rules, s.terms, 2, s.good(1, 1, 0.5F, 4));
  s.hear(s.good(1, 1, std::numeric_limits<float>::quiet_NaN(), 8));
  CHECK(s.shared()[20] == Approx(1.0F - 0.5F * 8 / 16).margin(0.01));
}

TEST_CASE("parameter server: a quorum without everybody moves the parameters by its share", "[comm][fast]") {
  scene_of<axis::quorum> s;
  s.arrivals = {.least = 1, .gamma = 0};
  const auto moved_by = [&](std::uint32_t client, std::uint64_t number, std::uint64_t samples) {
    const float before = s.shared()[20];
    s.server.hear(s.rules, s.terms, client, s.good(1, number, 8, samples));
    return (before - s.shared()[20]) / 8;
  };
  // Nobody knows what the other two will bring: as much as this one.
  CHECK(moved_by(0, 1, 4) == Approx(1.0 / 3));
  CHECK(moved_by(1, 1, 12) == Approx(12.0 / (4 + 12 + 12)));
  CHECK(moved_by(2, 1, 4) == Approx(4.0 / (4 + 12 + 4)));
  CHECK(moved_by(0, 2, 8) == Approx(8.0 / (8 + 12 + 4)));
  // One that is done counts on; one that is lost does not.
  s.server.hear(s.rules, s.terms, 0, with_header(push_header{.word = hub_word::done}, 0));
  CHECK(moved_by(2, 2, 4) == Approx(4.0 / (8 + 12 + 4)));
  s.hear({});  // no message at all: peer 1 is left out
  CHECK(moved_by(2, 3, 4) == Approx(4.0 / (8 + 4)));
}

TEST_CASE("parameter server: what a lost client had pushed before counts still", "[comm][fast]") {
  scene_of<axis::quorum> s;
  s.arrivals = {.least = 2, .gamma = 0};
  s.hear(s.good(1, 1, 8));
  s.hear({});  // no message at all: peer 1 is left out
  CHECK(s.shared()[20] == 1);
  const bool others_end = GENERATE(false, true);
  if (others_end) {
    for (const std::uint32_t c : {0U, 2U})
      s.server.hear(s.rules, s.terms, c, with_header(push_header{.word = hub_word::done}, 0));
  } else {
    s.server.hear(s.rules, s.terms, 0, s.good(1, 1, 8));
  }
  CHECK((1 - s.shared()[20]) / 8 == Approx(others_end ? 1.0 : 2.0 / 3));
}

TEST_CASE("parameter server: a push counts for no more than its peer can have trained on", "[comm][fast]") {
  scene_of<axis::quorum> s;
  s.arrivals = {.least = 3, .gamma = 0};
  s.terms.most = {.samples = 40, .batch = 4};
  const auto push = [&](std::uint64_t number, float value, std::uint64_t samples, std::uint32_t steps) {
    return with(s.good(1, number, value, samples), [&](push_header& h) { h.steps = steps; });
  };
  const auto round = [&](std::uint64_t number, std::vector<std::byte> third) {
    const float before = s.shared()[20];
    s.server.hear(s.rules, s.terms, 0, push(number, 8, 40, 10));
    s.server.hear(s.rules, s.terms, 2, push(number, 8, 40, 10));
    s.hear(third);
    return (before - s.shared()[20]) / 8;
  };
  CHECK(round(1, push(1, 0, 40, 10)) == Approx(2.0 / 3));
  // As many steps as it likes, each with what a step can have: as much as all others have at most, at the same batch.
  CHECK(round(2, push(2, 0, 4ULL * UINT32_MAX, UINT32_MAX)) == Approx(2.0 / 3));
  CHECK(s.lines.empty());
  // More than its steps can have: it is left out, before anything is merged.
  CHECK(round(3, push(3, 0, 41, 10)) == Approx(1));
  REQUIRE(s.lines.size() == 1);
  CHECK(s.lines[0].find("peer 1: its push claims 41 samples in 10 inner steps, of which each has at most 4") !=
        std::string::npos);
}

TEST_CASE("parameter server: a push of no samples moves the parameters by no more than its part of the clients",
          "[comm][fast]") {
  scene_of<axis::quorum> s;
  s.arrivals = {.least = 1, .gamma = 0};
  s.hear(s.good(1, 1, 8, 0));
  CHECK((1 - s.shared()[20]) / 8 == Approx(1.0 / 3));
}

TEST_CASE("parameter server: who is too far ahead is answered when the slowest has caught up, is done or is lost",
          "[comm][fast]") {
  const auto answers = [](auto slowest_does) {
    scene s;
    s.arrivals.most_ahead = 2;
    const auto push = [&](std::uint32_t client, std::uint64_t number) {
      s.server.hear(s.rules, s.terms, client, s.good(1, number));
    };
    for (const std::uint64_t n : {1U, 2U}) push(0, n), push(2, n);
    CHECK(s.server.clients().own_answers().size() == 1);  // peer 1 has pushed nothing
    slowest_does(s, push);
    return s.server.clients().own_answers().size();
  };
  CHECK(answers([](scene&, const auto&) {}) == 1);
  CHECK(answers([](scene&, const auto& push) { push(2, 3); }) == 1);
  CHECK(answers([](scene&, const auto& push) { push(1, 1); }) == 2);
  CHECK(answers([](scene& s, const auto&) { s.hear(with_header(push_header{.word = hub_word::done}, 0)); }) == 2);
  CHECK(answers([](scene& s, const auto&) { s.hear({}); }) == 2);
}

TEST_CASE("parameter server: a client that is refused is told so, by name of the error", "[comm][fast]") {
  scene s;
  const std::vector<float> parameters(length, 1.0F);
  server_client link;
  const hub_terms theirs{.transport = s.client_net, .pool = s.pool, .clock = s.clock, .log = s.log, .cuts = s.cuts};
  REQUIRE(link.open(theirs, 0, 0, parameters));
  const std::vector<float> row(16, std::numeric_limits<float>::quiet_NaN());
  for (std::uint64_t n = 1; n <= 8; ++n) {  // it starts again from the shared parameters, each time
    s.hear(link.compose(s.rules, axis::no_residual{}, 1.0F, theirs, 0, row, true));
    REQUIRE(link.wait(theirs));
    hub_leg& leg = link.legs()[0];
    CHECK(leg.unsound);
    CHECK(leg.answer == std::vector<float>(16, 1.0F));
    link.applied(leg);
    CHECK_FALSE(leg.unsound);
  }
  s.hear(link.compose(s.rules, axis::no_residual{}, 1.0F, theirs, 0, row, true));
  const auto outcome = link.wait(theirs);
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().code == errc::non_finite);
  CHECK(outcome.error().where == "peer 0, the hub");
}

TEST_CASE("server client: whatever a hub says, it is checked", "[comm][fast]") {
  scene s;
  const std::vector<float> parameters(length, 1.0F);
  const hub_terms theirs{.transport = s.client_net, .pool = s.pool, .clock = s.clock, .log = s.log, .cuts = s.cuts};
  const auto hears = [&](const answer_header& h, std::size_t values, float value = 2.0F) {
    server_client link;
    REQUIRE(link.open(theirs, 0, 0, parameters));
    (void)link.compose(s.rules, axis::no_residual{}, 1.0F, theirs, 1, std::span{parameters}.first(8), true);
    auto bytes = with_header(h, values * sizeof(float));
    for (std::size_t i = 0; i < values; ++i) std::memcpy(bytes.data() + sizeof h + 4 * i, &value, 4);
    return link.hear(theirs, bytes).has_value();
  };
  CHECK(hears({.fragment = 1, .number = 1}, 8));
  CHECK(hears({.word = hub_word::last}, length));
  CHECK_FALSE(hears({.fragment = 1, .number = 1}, 7));
  CHECK_FALSE(hears({.fragment = 1, .number = 1}, 9));
  CHECK_FALSE(hears({.fragment = 1, .number = 2}, 8));
  CHECK_FALSE(hears({.fragment = 0, .number = 1}, 16));  // nothing was pushed
  CHECK_FALSE(hears({.fragment = 2, .number = 1}, 8));
  CHECK_FALSE(hears({.word = hub_word::hello, .fragment = 1, .number = 1}, 8));
  CHECK_FALSE(hears({.word = hub_word::last}, length - 1));
  CHECK_FALSE(hears({.fragment = 1, .number = 1}, 8, std::numeric_limits<float>::infinity()));
}

TEST_CASE("parameter server: who pushes without waiting is left out before it fills the hub's memory", "[comm][fast]") {
  scene_of<axis::quorum> s;
  s.arrivals = {.least = 3, .gamma = 0};
  const auto before = s.shared();
  s.hear(s.good(1, 1));
  s.hear(s.good(1, 2));
  CHECK(s.lines.empty());
  s.hear(s.good(1, 3));
  REQUIRE(s.lines.size() == 1);
  CHECK(s.lines[0].find("peer 1") != std::string::npos);
  CHECK(s.lines[0].find("goes on pushing while 2 of its pushes wait") != std::string::npos);
  CHECK(s.shared() == before);
}

TEST_CASE("parameter server: clients are known by name, whatever place they have", "[comm][fast]") {
  scene s;
  auto& hub = s.server;
  hub.set_clients(s.terms, 0, {.peers = {0, 1, 2}, .names = {70, 71, 72}}, 200);
  hub.take_in(s.terms, 1, s.good());
  hub.close(s.rules, s.terms);
  const auto after_one = s.shared();
  CHECK(after_one[0] == Approx(0.5F).margin(0.01));
  hub.clients().hang_up();

  hub.set_clients(s.terms, 0, {.peers = {0, 1, 2, 3}, .names = {70, 73, 72, 71}}, 200);  // 73 is new, and may push at once
  CHECK(hub.clients()[3].taken[0] == 1);
  CHECK(hub.clients()[1].taken[0] == 0);
  hub.take_in(s.terms, 1, s.good(1));
  hub.take_in(s.terms, 3, s.good());  // it was taken
  hub.close(s.rules, s.terms);
  REQUIRE(s.lines.size() == 1);
  CHECK(s.lines[0].find("a push that makes no sense") != std::string::npos);
  CHECK(s.shared()[0] == after_one[0]);
  CHECK(s.shared()[20] == Approx(0.5F).margin(0.01));
}

TEST_CASE("parameter server: an heir goes on from the copy, and knows nobody's pushes", "[comm][fast]") {
  scene s, other;
  s.hear(s.good());
  other.server.found_on(other.cuts, s.server.state());
  CHECK(other.shared() == s.shared());
  other.server.set_clients(other.terms, 0, {.peers = {0, 1}, .names = {71, 72}}, 200);
  other.server.take_in(other.terms, 1, other.good());
  other.server.close(other.rules, other.terms);
  CHECK(other.lines.empty());
  CHECK(other.shared()[0] == Approx(0.0F).margin(0.02));
  other.server.dissolve();
  CHECK(other.shared().empty());
}
