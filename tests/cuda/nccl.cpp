// SPDX-License-Identifier: Apache-2.0
// What nccl.cuh does with what devices there are; the rest of a site is in site.cpp.
#include <causeway/comm/by_site.hpp>
#include <causeway/cuda/backend.hpp>

#include "collective/peers.hpp"
#include "cuda/device_functions.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <string>
#include <vector>

using namespace causeway;

namespace {

/// `f(site, engine)` on a thread for each device; the errors met.
template <class F>
std::vector<result<void>> on_all_devices(std::uint32_t devices, const F& f) {
  std::vector<net::peer_index> members;
  for (net::peer_index p = 0; p < devices; ++p) members.push_back(p);
  return peer_threads::run(net::memory_network{devices}, [&](net::memory_transport& end) -> result<void> {
    const auto device = static_cast<int>(end.self());
    net::any_transport over{std::move(end)};
    CAUSEWAY_ASSIGN(const auto engine, causeway_test::engine_of_device(device));
    CAUSEWAY_ASSIGN(const auto site, causeway_test::site_of_devices(over, members, device));
    return f(*site, *engine);
  });
}

}  // namespace

TEST_CASE("cuda nccl: without a device every member is told so", "[cuda][gpu][fast]") {
  if (causeway_test::count_devices()) return;
  const auto done = peer_threads::run(net::memory_network{2}, [](net::memory_transport& end) -> result<void> {
    net::any_transport over{std::move(end)};
    const auto site = causeway_test::site_of_devices(over, {0, 1}, 0);
    if (site) return {};
    return site.error();
  });
  for (const auto& outcome : done) {
    REQUIRE_FALSE(outcome);
    CHECK(outcome.error().code == errc::unsupported);
  }
}

TEST_CASE("cuda nccl: a device that is not there, and a peer that is no member, are refused", "[cuda][gpu][fast]") {
  net::any_transport alone;
  const auto far = causeway_test::site_of_devices(alone, {0}, 1 << 20);
  REQUIRE_FALSE(far);
  CHECK((far.error().code == errc::unsupported || far.error().code == errc::invalid_argument));
  CHECK(causeway_test::site_of_devices(alone, {1}, 0).error().code == errc::invalid_argument);
}

TEST_CASE("cuda nccl: errors say what they are to us", "[cuda][fast]") {
  CHECK(causeway_test::error_of_nccl(6).code == errc::peer_lost);         // ncclRemoteError
  CHECK(causeway_test::error_of_nccl(2).code == errc::peer_lost);         // ncclSystemError
  CHECK(causeway_test::error_of_nccl(5).code == errc::invalid_argument);  // ncclInvalidUsage
  CHECK(causeway_test::error_of_nccl(3).code == errc::device_lost);       // ncclInternalError
}

TEST_CASE("cuda nccl: means, broadcasts and words of all devices at hand", "[cuda][gpu][fast]") {
  const auto devices = causeway_test::count_devices();
  if (!devices) {
    WARN("not compared: " << devices.error().text());
    return;
  }
  const auto n = static_cast<std::uint32_t>(*devices);
  const auto done = on_all_devices(n, [&](collective::site& s, cuda::engine& engine) -> result<void> {
    constexpr std::size_t count = 1'000'003;
    const auto memory = cuda::memory_of(engine);
    aligned_buffer<float> values{count, memory};
    for (std::size_t i = 0; i < count; ++i) values.data()[i] = static_cast<float>(s.rank() * 8 + i % 5);
    CAUSEWAY_TRY(s.mean(values.span()));
    for (std::size_t i = 0; i < count; ++i) {
      const auto expected = 4.0F * static_cast<float>(n - 1) + static_cast<float>(i % 5);
      if (std::abs(values.data()[i] - expected) > 1e-5F * expected) return fail(errc::diverged, "mean", std::to_string(i));
    }
    std::fill_n(values.data(), count, static_cast<float>(s.rank()));
    CAUSEWAY_TRY(s.broadcast(n - 1, values.span()));
    if (values.data()[count - 1] != static_cast<float>(n - 1)) return fail(errc::diverged, "broadcast", "");
    CAUSEWAY_ASSIGN(const bool yes, s.all_of(true));
    CAUSEWAY_ASSIGN(const bool no, s.all_of(s.rank() != 0));
    return yes && !no ? result<void>{} : fail(errc::diverged, "all_of", "");
  });
  for (const auto& outcome : done) {
    INFO((outcome ? std::string{} : outcome.error().text()));
    CHECK(outcome);
  }
}
