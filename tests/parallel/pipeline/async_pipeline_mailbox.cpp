// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/pipeline/async_pipeline_mailbox.hpp>

#include <causeway/net/memory_transport.hpp>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "support/catch.hpp"

namespace causeway::parallel {
namespace {

using stage::direction;

// Ranks 0 and 1, in one thread: a message is kept until it is received.
struct two_ranks {
  explicit two_ranks(time_point deadline = no_deadline)
      : first{view(0), {.shape = shape, .deadline = deadline}}, second{view(1), {.shape = shape, .deadline = deadline}} {}

  collective::group_view view(std::uint32_t peer) { return {ends[peer], {0, 1}}; }

  static constexpr stream_shape shape{.sequences = 1, .rows = 2, .width = 3};
  thread_pool pool;
  stage::plain codec;
  net::memory_network network{2};
  net::any_transport ends[2]{net::any_transport{network.transport(0)}, net::any_transport{network.transport(1)}};
  async_pipeline_mailbox<stage::plain> first, second;
};

constexpr stream_line up{direction::forward, 0, 1};          // of rank 0, sending
constexpr stream_line from_below{direction::forward, 0, 0};  // of rank 1, receiving
constexpr stream_line down{direction::backward, 0, 0};
constexpr stream_line from_above{direction::backward, 0, 1};

std::vector<float> values_of(float first) { return {first, 1, 2, 3, 4, 5}; }

}  // namespace

TEST_CASE("async pipeline mailbox: tensors arrive in order, losses with gradients, both ways at once", "[parallel][fast]") {
  two_ranks r;
  for (std::uint64_t n = 0; n < 3; ++n) r.second.expect(r.codec, from_below, {n, n, 0});
  r.first.expect(r.codec, from_above, {0, 0, 0});
  CHECK(r.second.expected(direction::forward) == 3);
  for (std::uint64_t n = 0; n < 3; ++n) {
    REQUIRE(r.first.send(r.codec, r.pool, up, {n, n, 0}, {}, values_of(static_cast<float>(n)), 0.0));
  }
  REQUIRE(r.second.send(r.codec, r.pool, down, {0, 0, 0}, {}, values_of(7), 2.5));
  REQUIRE(r.first.flush(direction::forward, 0));
  REQUIRE(r.second.flush(direction::backward, 0));
  std::vector<float> got(6);
  for (std::uint64_t n = 0; n < 3; ++n) {
    CHECK(r.second.take(r.codec, r.pool, from_below, {}, got).value() == 0.0);
    CHECK(got == values_of(static_cast<float>(n)));
  }
  CHECK(r.first.take(r.codec, r.pool, from_above, {}, got).value() == 2.5);
  CHECK(got == values_of(7));
}

TEST_CASE("async pipeline mailbox: what did not come in time can be waited for again", "[parallel][fast]") {
  two_ranks r{time_point{} + std::chrono::nanoseconds{1}};  // long over
  r.second.expect(r.codec, from_below, {0, 0, 0});
  std::vector<float> got(6);
  for (int attempt = 0; attempt < 2; ++attempt) {
    CHECK(r.second.take(r.codec, r.pool, from_below, {}, got).error().code == errc::timeout);
  }
  REQUIRE(r.first.send(r.codec, r.pool, up, {0, 0, 0}, {}, values_of(9), 0.0));
  REQUIRE(r.second.take(r.codec, r.pool, from_below, {}, got));
  CHECK(got == values_of(9));
}

TEST_CASE("async pipeline mailbox: bytes that are no boundary tensor are refused, as often as they are looked at",
          "[parallel][fast]") {
  const auto refused = [](std::span<const std::byte> bytes) {
    two_ranks r;
    r.first.expect(r.codec, from_above, {0, 0, 0});
    const net::message_id id{.channel = collective::numbered(1, 0)};
    auto view = r.view(1);
    const auto op = view.send(0, id, bytes);
    REQUIRE(view.wait(op, no_deadline));
    std::vector<float> got(6);
    const auto once = r.first.take(r.codec, r.pool, from_above, {}, got);
    const auto twice = r.first.take(r.codec, r.pool, from_above, {}, got);
    REQUIRE_FALSE(once);
    CHECK(twice.error().code == once.error().code);
    if (once.error().code != errc::too_large) CHECK(once.error().where.starts_with("rank 1"));
    return once.error().code;
  };
  std::vector<std::byte> bytes(sizeof(double) + 6 * sizeof(float));
  CHECK(refused(std::span{bytes}.first(3)) == errc::protocol);
  CHECK(refused(std::span{bytes}.first(sizeof(double))) == errc::protocol);
  CHECK(refused(std::span{bytes}.first(bytes.size() - 1)) == errc::protocol);
  CHECK(refused(std::vector<std::byte>(bytes.size() + 1)) == errc::too_large);
  const double loss = std::numeric_limits<double>::infinity();
  std::memcpy(bytes.data(), &loss, sizeof loss);
  CHECK(refused(bytes) == errc::non_finite);
  const double fine = 1;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(bytes.data(), &fine, sizeof fine);
  std::memcpy(bytes.data() + sizeof fine, &nan, sizeof nan);
  CHECK(refused(bytes) == errc::non_finite);
}

TEST_CASE("async pipeline mailbox: a peer that is gone fails what must have left, and not what nobody needs",
          "[parallel][fast]") {
  two_ranks r;
  r.first.expect(r.codec, from_above, {0, 0, 0});
  { const auto leaves = std::move(r.ends[1]); }
  REQUIRE(r.first.send(r.codec, r.pool, up, {0, 0, 0}, {}, values_of(0), 0.0));
  CHECK(r.first.flush(direction::forward, 1));
  CHECK(r.first.flush(direction::forward, 0).error().code == errc::peer_lost);
  CHECK(r.first.flush(direction::forward, 0).error().code == errc::peer_lost);
  std::vector<float> got(6);
  CHECK(r.first.take(r.codec, r.pool, from_above, {}, got).error().code == errc::peer_lost);
}

TEST_CASE("async pipeline mailbox: values that are not finite are told apart where they were made", "[parallel][fast]") {
  two_ranks r;
  const auto outcome =
      r.first.send(r.codec, r.pool, up, {0, 0, 0}, {}, values_of(std::numeric_limits<float>::quiet_NaN()), 0.0);
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().code == errc::non_finite);
  CHECK(outcome.error().where == "this stage");
}

TEST_CASE("async pipeline mailbox: what the other side has not taken goes over other links again", "[parallel][fast]") {
  two_ranks r;
  net::memory_network other{2};
  net::any_transport ends[2]{net::any_transport{other.transport(0)}, net::any_transport{other.transport(1)}};
  async_pipeline_mailbox<stage::plain> first{r.view(0), {.shape = two_ranks::shape, .keeps = true}};
  for (std::uint64_t n = 0; n < 4; ++n) r.second.expect(r.codec, from_below, {n, n, 0});
  for (std::uint64_t n = 0; n < 3; ++n) {
    REQUIRE(first.send(r.codec, r.pool, up, {n, n, 0}, {}, values_of(static_cast<float>(n)), 0.0));
  }
  REQUIRE(first.flush(direction::forward, 0));
  std::vector<float> got(6);
  REQUIRE(r.second.take(r.codec, r.pool, from_below, {}, got));
  CHECK(r.second.taken(direction::forward) == 1);

  // Messages 1 and 2 had arrived, and are not known to have: they come again. One that nobody needs is not kept.
  first.forget(direction::forward, 1);
  r.second.go_on({ends[1], {0, 1}}, {});
  first.go_on({ends[0], {0, 1}}, {r.second.taken(direction::forward), 0});
  REQUIRE(first.send(r.codec, r.pool, up, {3, 3, 0}, {}, values_of(3), 0.0));
  for (std::uint64_t n = 1; n < 4; ++n) {
    REQUIRE(r.second.take(r.codec, r.pool, from_below, {}, got));
    CHECK(got == values_of(static_cast<float>(n)));
  }
  CHECK(r.second.taken(direction::forward) == 4);
  CHECK(other.operations(0) == 3);
}

}  // namespace causeway::parallel
