// SPDX-License-Identifier: Apache-2.0
#include <causeway/collective/exchange.hpp>

#include <string>
#include <string_view>

#include "support/catch.hpp"

using namespace causeway;
using namespace causeway::collective;

namespace {

/// Writes down what it is asked for; fails in the phase it is told.
struct noting {
  static constexpr std::string_view name = "noting";
  static constexpr exchange_traits traits{};
  char fails = ' ';
  std::string calls{};

  result<void> note(char phase) {
    calls += phase;
    if (phase == fails) return fail(errc::timeout, "noting", "as it was told");
    return {};
  }
  result<void> begin(const exchange_port&, const exchange_row&, int) { return note('b'); }
  result<void> turn(const exchange_port&, const exchange_row&, int) { return note('t'); }
  result<void> finish(const exchange_port&, const exchange_row&, int) { return note('f'); }
  void cancel() { calls += 'c'; }
};
static_assert(Exchange<noting, int>);
static_assert(!Exchange<noting, std::string>);
static_assert(!Exchange<int, int>);

}  // namespace

TEST_CASE("exchange: a blocking one is all three phases, up to the first that fails", "[collective][fast]") {
  net::any_transport alone;
  const collective_options options;
  const exchange_port port{alone, {.channel = 64}, options};
  const auto calls = [&](char fails) {
    noting e{fails};
    const auto outcome = run_exchange(e, port, exchange_row{}, 1);
    return e.calls + (outcome ? "" : " " + outcome.error().where);
  };
  CHECK(calls(' ') == "btf");
  CHECK(calls('b') == "b noting");
  CHECK(calls('t') == "bt noting");
  CHECK(calls('f') == "btf noting");
}
