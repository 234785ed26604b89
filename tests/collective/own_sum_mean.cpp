// SPDX-License-Identifier: Apache-2.0
#include <causeway/collective/own_sum_mean.hpp>

#include <causeway/collective/split_mean.hpp>

#include <limits>
#include <vector>

#include "exchange_cases.hpp"
#include "exchange_faults.hpp"
#include "support/catch.hpp"

using namespace cases;
using namespace causeway::collective;
namespace net = causeway::net;

namespace {

using tested = own_sum_mean<split_mean<plain>>;

/// One peer of two, whose sums double what it gives: the other has the same. It ends a sum when it is waited for.
struct doubling {
  static net::peer_index self() { return 0; }
  static std::uint32_t size() { return 2; }
  static net::operation send(net::peer_index, const net::message_id&, std::span<const std::byte>) { return 0; }
  static net::operation receive(net::peer_index, const net::message_id&, std::span<std::byte>) { return 0; }
  causeway::result<std::size_t> wait(net::operation op, causeway::time_point) {
    if (op == 0 || op > begun->size()) return fail(errc::invalid_argument, "doubling", "no such sum");
    for (float& v : (*begun)[op - 1]) v *= 2;
    ++*ended;
    return (*begun)[op - 1].size_bytes();
  }
  static bool done(net::operation) { return true; }
  static bool wait_any(std::span<const net::operation>, causeway::time_point) { return true; }
  static causeway::traffic stats() { return {}; }
  static bool sums() { return true; }
  net::operation sum(std::span<float> data) {
    begun->push_back(data);
    return begun->size();
  }
  std::vector<std::span<float>>* begun;
  int* ended;
};

struct doubled {
  std::vector<std::span<float>> begun;
  int ended = 0;
  any_transport over{doubling{&begun, &ended}};
  thread_pool pool{1};
  collective_options options{};
  message_context context{pool};
  exchange_port port{over, {.channel = 1}, options};
};

}  // namespace

static_assert(Exchange<tested, message_context>);

TEST_CASE("own sum mean: by messages where the transport has no sums of its own", "[collective][fast]") {
  for (const std::uint32_t size : {1U, 2U, 5U}) {
    check_mean<tested>(size, 1000, std::vector<float>(size, 1.0F));
  }
}

TEST_CASE("own sum mean: weights count, and sums go on from begin to finish", "[collective][fast]") {
  doubled two;
  std::vector<float> values{1, -2, 8}, residual(3, 5.0F);
  const exchange_row row{.values = values, .residual = residual, .weight = 3};
  tested mean;
  REQUIRE(mean.begin(two.port, row, two.context));
  CHECK(two.begun.size() == 2);
  tested moved{std::move(mean)};
  REQUIRE(moved.turn(two.port, row, two.context));
  CHECK(two.ended == 0);
  REQUIRE(moved.finish(two.port, row, two.context));
  CHECK(two.ended == 2);
  CHECK((values == std::vector<float>{1, -2, 8}));  // (3 x + 3 x) / 6
  CHECK((residual == std::vector<float>(3, 0.0F)));
}

TEST_CASE("own sum mean: who listens adds nothing, and nobody is an error", "[collective][fast]") {
  doubled two;
  std::vector<float> values{std::numeric_limits<float>::quiet_NaN(), 1};
  const exchange_row row{.values = values, .weight = 0};
  tested mean;
  REQUIRE(mean.begin(two.port, row, two.context));
  const auto outcome = mean.finish(two.port, row, two.context);
  REQUIRE(!outcome);
  CHECK(outcome.error().code == errc::invalid_argument);
  CHECK((values == std::vector<float>{0, 0}));
}

TEST_CASE("own sum mean: values that cannot be used fail on all peers", "[collective][fast]") {
  doubled two;
  std::vector<float> infinite{std::numeric_limits<float>::infinity(), 1}, sound{1, 1};
  for (const exchange_row& row :
       {exchange_row{.values = infinite}, exchange_row{.values = sound, .refused = errc::corrupt}}) {
    tested mean;
    REQUIRE(mean.begin(two.port, row, two.context));
    const auto outcome = mean.finish(two.port, row, two.context);
    REQUIRE(!outcome);
    CHECK(outcome.error().code == errc::non_finite);
  }
}

TEST_CASE("own sum mean: what is given up is waited for", "[collective][fast]") {
  doubled two;
  std::vector<float> values{1, 2};
  const exchange_row row{.values = values};
  {
    tested mean;
    REQUIRE(mean.begin(two.port, row, two.context));
    REQUIRE(mean.begin(two.port, row, two.context));
    CHECK(two.ended == 2);
  }
  CHECK(two.ended == 4);
}
