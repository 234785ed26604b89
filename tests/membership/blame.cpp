// SPDX-License-Identifier: Apache-2.0
#include <causeway/membership/blame.hpp>

#include <causeway/membership/durable_record.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "membership/cluster.hpp"
#include "support/catch.hpp"

using namespace causeway;
using namespace causeway::membership;

namespace {

using ids = std::vector<net::peer_id>;

struct listener final : effects {
  void send(net::peer_id, std::vector<std::byte>) override {}
  void dial(const std::string&) override {}
  void drop(net::peer_id, const std::string&) override {}
  [[nodiscard]] bool persist(const durable_record&) override { return true; }
  void wake_at(time_point) override {}
};

/// Peers 1 to n, of whom 1 leads, and attempts among those that do not sit out.
struct trial {
  explicit trial(std::uint64_t n) {
    for (net::peer_id id = 1; id <= n; ++id) {
      all.push_back(id);
      table.entry(id).up = true;
    }
  }

  ids here() {
    ids who;
    for (const net::peer_id id : all) {
      if (table.entry(id).pause == 0) who.push_back(id);
    }
    return who;
  }
  ids out() {
    ids who;
    for (const net::peer_id id : all) {
      if (table.entry(id).pause > 0) who.push_back(id);
    }
    return who;
  }

  /// The next attempt begins; those who sit out have one less to go.
  const ids& go() {
    now = here();
    for (const net::peer_id id : all) {
      auto& p = table.entry(id);
      if (p.pause > 0) --p.pause;
    }
    at = at.next();
    attempt.begin_exchange(at, {}, now, {});
    blame.begin_exchange(at, now);
    return now;
  }
  void complain(net::peer_id by, ids about, errc why = errc::non_finite) {
    blame.on(by, {at, why, std::move(about)});
    attempt.failed(by);
  }
  void vote_all_but(const ids& silent) {
    for (const net::peer_id id : now) {
      if (!contains(silent, id)) attempt.voted(id, 7, {});
    }
  }
  /// It fails; all are ready again but those who hang.
  void fails(const ids& hung = {}) {
    blame.failed(attempt);
    blame.decide([&](net::peer_id id) { return !contains(hung, id); }, here(),
                 [&](const ids& left) { return 2 * left.size() > all.size(); });
  }
  void commits() {
    for (const net::peer_id id : all) blame.committed(attempt, id, table.entry(id));
    blame.decide([](net::peer_id) { return true; }, here(), [](const ids&) { return true; });
  }

  listener fx;
  membership::detail::peer_table table{options{}, fresh_record(5, 1), fx};
  membership::detail::blame blame{table};
  membership::detail::attempt attempt;
  ballot at{1, 0};
  ids all, now;
};

}  // namespace

TEST_CASE("blame: whom others saw to send what cannot be used sits out, whoever only heard of it blames nobody",
          "[membership][fast]") {
  trial t{5};
  t.go();
  t.complain(2, {4});
  for (const net::peer_id id : {1U, 3U, 5U}) t.complain(id, {});
  t.fails();
  CHECK(t.out() == ids{4});
}

TEST_CASE("blame: a complaint that comes after the attempt was ended counts as well", "[membership][fast]") {
  trial t{5};
  t.go();
  t.complain(1, {}, errc::cancelled);
  t.blame.failed(t.attempt);
  t.complain(3, {4});
  t.blame.decide([](net::peer_id) { return true; }, t.here(), [](const ids&) { return true; });
  CHECK(t.out() == ids{4});
}

TEST_CASE("blame: of peers that waited for each other in a row, the one that hangs sits out and no other",
          "[membership][fast]") {
  trial t{5};
  t.go();
  t.complain(1, {5}, errc::timeout);  // each waited for its neighbour, and 4 hangs
  t.complain(2, {1}, errc::timeout);
  t.complain(3, {2}, errc::timeout);
  t.complain(5, {4}, errc::timeout);
  t.fails({4});
  CHECK(t.out() == ids{4});
}

TEST_CASE("blame: who blames innocents is found the second time", "[membership][fast]") {
  trial t{6};
  std::uint32_t innocent = 0;
  for (const net::peer_id accused : {5U, 6U, 2U, 4U}) {
    for (const net::peer_id id : t.all) t.table.entry(id).pause = 0;
    t.go();
    t.complain(3, {accused});
    t.fails();
    innocent += t.out() == ids{3} ? 0 : 1;
  }
  CHECK(innocent == 1);
}

TEST_CASE("blame: who refuses for no reason of others is found by leaving halves out, and only it", "[membership][fast]") {
  for (const std::uint64_t n : {3U, 4U, 7U, 16U, 61U}) {
    for (net::peer_id culprit = 1; culprit <= n; ++culprit) {
      INFO("peer " << culprit << " of " << n);
      trial t{n};
      int attempts = 0, failed = 0;
      while (t.table.entry(culprit).exclusions == 0) {
        REQUIRE(++attempts < 16);
        if (contains(t.go(), culprit)) {
          ++failed;
          for (const net::peer_id id : t.now) t.complain(id, {});
          t.fails();
        } else {
          t.vote_all_but({});
          t.commits();
        }
      }
      CHECK(failed <= 8);  // log2 61 + 2
      for (const net::peer_id id : t.all) CHECK((id == culprit || t.table.entry(id).exclusions == 0));
    }
  }
}

TEST_CASE("blame: who never votes sits out from the second time on, ever longer", "[membership][fast]") {
  trial t{5};
  std::vector<std::uint32_t> pauses;
  for (int round = 0; round < 60; ++round) {
    t.go();
    t.vote_all_but({4});
    t.commits();
    if (t.out() == ids{4} && contains(t.now, 4)) pauses.push_back(t.table.entry(4).pause);
  }
  CHECK(pauses == std::vector<std::uint32_t>{1, 2, 4, 8, 16, 16, 16});
  for (const net::peer_id id : {1U, 2U, 3U, 5U}) CHECK(t.table.entry(id).exclusions == 0);
}

TEST_CASE("blame: who fails again and again sits out ever longer, and is forgiven after sound rounds",
          "[membership][fast]") {
  trial t{3};
  for (const std::uint32_t pause : {1U, 2U, 4U}) {
    while (!contains(t.go(), 2)) continue;
    t.complain(2, {2}, errc::diverged);
    t.fails();
    CHECK(t.table.entry(2).pause == pause);
  }
  while (!contains(t.go(), 2)) continue;
  for (int round = 0; round < 12; ++round) {
    t.vote_all_but({});
    t.commits();
    t.go();
  }
  CHECK(t.table.entry(2).exclusions == 0);
}

TEST_CASE("blame: who complains of a peer that voted is the one that could not", "[membership][fast]") {
  trial t{5};
  t.go();
  t.complain(2, {5});
  t.vote_all_but({2});
  t.commits();
  CHECK(t.out() == ids{2});
}

TEST_CASE("blame: complaints about those who are gone, and of those who ended of their own accord, count for nothing",
          "[membership][fast]") {
  trial t{4};
  t.go();
  t.table.entry(3).up = false;
  t.complain(1, {3}, errc::peer_lost);
  t.complain(2, {1}, errc::timeout);  // it waited for one who waited for the lost one
  t.complain(4, {}, errc::cancelled);
  t.fails();
  CHECK(t.out().empty());
}
