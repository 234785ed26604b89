// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/site.hpp>

#include "collective/peers.hpp"
#include "support/catch.hpp"

#include <functional>
#include <memory>
#include <vector>

using namespace causeway;

namespace {

/// What a line was asked, and what it is to do: done after `looks` looks, or fails at the `fail_at`-th call.
struct script {
  int looks = 3;
  int fail_at = -1;
  bool all = true;
  int calls = 0, polls = 0, aborts = 0, after_abort = 0;
  std::vector<std::string> started;
};

class scripted_line {
 public:
  explicit scripted_line(std::shared_ptr<script> s) : s_{std::move(s)} {}
  [[nodiscard]] std::uint32_t size() const { return 3; }
  [[nodiscard]] std::uint32_t rank() const { return 1; }
  result<void> start_mean(float*, std::size_t n) { return start("mean " + std::to_string(n)); }
  result<void> start_broadcast(std::uint32_t from, float*, std::size_t n) {
    return start("broadcast " + std::to_string(from) + " " + std::to_string(n));
  }
  result<void> start_all_of(bool mine) { return start(mine ? "yes" : "no"); }
  result<cuda::progress> poll() {
    CAUSEWAY_TRY(call());
    return ++s_->polls >= s_->looks ? cuda::progress::done : cuda::progress::under_way;
  }
  result<bool> answer() {
    CAUSEWAY_TRY(call());
    return s_->all;
  }
  void abort() { ++s_->aborts; }

 private:
  result<void> start(std::string what) {
    s_->started.push_back(std::move(what));
    s_->polls = 0;
    return call();
  }
  result<void> call() {
    if (s_->aborts > 0) ++s_->after_abort;
    if (s_->calls++ == s_->fail_at) return fail(errc::peer_lost, "line", "told to fail");
    return {};
  }
  std::shared_ptr<script> s_;
};

using watched = cuda::watched_site<scripted_line>;

/// A clock that moves on by a second at every look.
struct ticking {
  std::shared_ptr<int> seconds = std::make_shared<int>(0);
  time_point now() { return {std::chrono::seconds{(*seconds)++}}; }
};

constexpr duration long_enough = std::chrono::hours{1};

/// One of each operation; the errors met.
std::vector<error> run_all(watched& site) {
  std::vector<float> values(5);
  std::vector<error> met;
  const auto note = [&](const auto& outcome) {
    if (!outcome) met.push_back(outcome.error());
  };
  note(site.mean(values));
  note(site.all_of(true));
  note(site.broadcast(2, values));
  return met;
}

}  // namespace

TEST_CASE("cuda site: operations start in order and return when they are done", "[cuda][fast]") {
  const auto s = std::make_shared<script>();
  watched site{scripted_line{s}, long_enough};
  CHECK(site.size() == 3);
  CHECK(site.rank() == 1);
  CHECK(run_all(site).empty());
  CHECK(s->started == std::vector<std::string>{"mean 5", "yes", "broadcast 2 5"});
  CHECK(s->calls == 3 + 3 * 3 + 1);
  CHECK(s->aborts == 0);
  s->all = false;
  const auto all = site.all_of(true);
  REQUIRE(all);
  CHECK_FALSE(*all);
}

TEST_CASE("cuda site: whichever call fails, the line is aborted once and the error stays", "[cuda][fast]") {
  for (int n = 0; n < 13; ++n) {
    INFO("call " << n);
    const auto s = std::make_shared<script>();
    s->fail_at = n;
    watched site{scripted_line{s}, long_enough};
    const auto first = run_all(site);
    REQUIRE_FALSE(first.empty());
    CHECK(first.front().code == errc::peer_lost);
    const auto later = run_all(site);
    REQUIRE(later.size() == 3);
    for (const auto& e : later) CHECK(e.text() == first.front().text());
    CHECK(s->aborts == 1);
    CHECK(s->after_abort == 0);
  }
}

TEST_CASE("cuda site: a member that never comes is an error when patience ends", "[cuda][fast]") {
  const auto s = std::make_shared<script>();
  s->looks = 1 << 30;
  watched site{scripted_line{s}, std::chrono::seconds{20}, any_clock{ticking{}}};
  std::vector<float> values(5);
  const auto outcome = site.mean(values);
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().code == errc::timeout);
  CHECK(outcome.error().text().find("20 s") != std::string::npos);
  CHECK(s->polls == 20);
  CHECK(s->aborts == 1);
  CHECK(site.all_of(true).error().code == errc::timeout);
}

namespace {

cuda::site_id id_of(int n) {
  cuda::site_id id{};
  for (std::size_t i = 0; i < id.size(); ++i) id[i] = static_cast<std::byte>(static_cast<std::size_t>(n) + i);
  return id;
}

const std::vector<net::peer_index> members{2, 0, 3};

struct opened {
  std::vector<std::optional<cuda::site_id>> ids = std::vector<std::optional<cuda::site_id>>(4);
  std::vector<std::string> errors = std::vector<std::string>(4);
};

/// Peers 2, 0 and 3 of four agree; `mine(peer)` is what each brings.
template <class Mine>
opened agree(const net::memory_network& network, Mine&& mine) {
  opened got;
  (void)peer_threads::run(network, [&](net::memory_transport& end) -> result<void> {
    const net::peer_index self = end.self();
    if (self == 1) return {};
    net::any_transport over{std::move(end)};
    const auto id = cuda::agree_on_id(over, members, mine(self), peer_threads::soon());
    if (id) got.ids[self] = *id;
    if (!id) got.errors[self] = id.error().text();
    return {};
  });
  return got;
}

}  // namespace

TEST_CASE("cuda site: all members have the id of the first", "[cuda][fast]") {
  const auto got =
      agree(net::memory_network{4}, [](net::peer_index p) { return result<cuda::site_id>{id_of(static_cast<int>(p))}; });
  for (const auto p : members) CHECK(got.ids[p] == id_of(2));
}

TEST_CASE("cuda site: a member without a device is told apart, and nobody waits for it", "[cuda][fast]") {
  for (const auto without : members) {
    const auto got = agree(net::memory_network{4}, [&](net::peer_index p) -> result<cuda::site_id> {
      if (p == without) return fail(errc::unsupported, "device", "there is none");
      return id_of(1);
    });
    for (const auto p : members) {
      CHECK_FALSE(got.ids[p]);
      CHECK(got.errors[p].find(p == without ? "there is none" : "another member") != std::string::npos);
    }
  }
}

TEST_CASE("cuda site: a member that is lost while the id goes round is an error for whoever has not got it",
          "[cuda][fast]") {
  for (std::uint64_t n = 0;; ++n) {
    net::memory_network network{4};
    network.kill_at(2, n);
    const auto got = agree(network, [](net::peer_index p) { return result<cuda::site_id>{id_of(static_cast<int>(p))}; });
    for (const auto p : members) CHECK((got.ids[p] == id_of(2) || !got.errors[p].empty()));
    if (got.errors[2].empty()) {
      REQUIRE(n > 3);
      break;
    }
  }
}

TEST_CASE("cuda site: an id of another length is refused", "[cuda][fast]") {
  const std::size_t length = GENERATE(std::size_t{0}, std::size_t{127}, std::size_t{129});
  net::memory_network network{2};
  const auto done = peer_threads::run(network, [&](net::memory_transport& end) -> result<void> {
    const std::vector<net::peer_index> both{0, 1};
    net::any_transport over{std::move(end)};
    if (over.self() == 1) {
      const auto id = cuda::agree_on_id(over, both, id_of(0), peer_threads::soon());
      if (id) return fail(errc::diverged, "agree_on_id", "took it");
      const auto code = id.error().code;
      return code == errc::protocol || code == errc::too_large ? result<void>{} : result<void>{id.error()};
    }
    collective::transport_site words{over, both, {.channel = collective::channels::site}, {}};
    CAUSEWAY_TRY(words.all_of(true));
    const std::vector<std::byte> wrong(length);
    const auto sent = over.send(1, {.channel = collective::channels::site + 12}, wrong);
    (void)over.wait(sent, peer_threads::soon());
    return {};
  });
  CHECK(peer_threads::all_succeeded(done));
}
