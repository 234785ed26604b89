// SPDX-License-Identifier: Apache-2.0
// One run of a peer whose model is on a device and one on the processor.
#include <causeway/compress/block_int8.hpp>
#include <causeway/compress/none.hpp>
#include <causeway/cuda/codec.hpp>
#include <causeway/cuda/nesterov.hpp>
#include <causeway/optim/nesterov.hpp>

#include <array>
#include <functional>
#include <utility>

#include "cuda/first_device.hpp"
#include "cuda/mixed_case.hpp"
#include "support/catch.hpp"

template class causeway::nn::language_model<causeway::nn::gpt_family>;
template class causeway::nn::language_model<causeway::nn::gpt_family, causeway::cuda::backend>;

using namespace causeway;
using namespace causeway_test::mixed_case;

namespace {

using peer_of_run = std::function<outcome(std::uint32_t, environment)>;

void check_run(const peer_of_run& there, const peer_of_run& here) {
  std::array<outcome, 2> got;
  support::run_cluster(
      2, [&](std::uint32_t peer, environment env) { got[peer] = (peer == 0 ? there : here)(peer, std::move(env)); });
  for (const outcome& o : got) CHECK_FALSE(o.failed);
  check_equal(got[0], got[1]);
  CHECK(got[0].losses.back() < got[0].losses.front());
}

}  // namespace

TEST_CASE("cuda engine: a peer on a device and one on the CPU have equal state hashes after every round of DiLoCo",
          "[cuda][gpu][fast]") {
  const auto engine = causeway_test::first_device();
  if (engine == nullptr) return;
  const auto by_host = [&](std::uint32_t peer, environment env) {
    return train_there(peer, std::move(env), engine, optim::nesterov{}, compress::none{});
  };
  check_run(by_host, [](std::uint32_t peer, environment env) {
    return train_here<optim::nesterov, compress::none>(peer, std::move(env));
  });
  const auto by_device = [&](std::uint32_t peer, environment env) {
    return train_there(peer, std::move(env), engine, cuda::nesterov{engine}, cuda::codec<compress::block_int8>{engine});
  };
  check_run(by_device, [](std::uint32_t peer, environment env) {
    return train_here<optim::nesterov, compress::block_int8>(peer, std::move(env));
  });
}
