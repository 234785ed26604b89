// SPDX-License-Identifier: Apache-2.0
// One run of a peer whose model is on an engine and one on the processor, with the policies of the host.
#include <causeway/compress/none.hpp>
#include <causeway/optim/nesterov.hpp>

#include "cuda/host_engine.hpp"
#include "cuda/mixed_case.hpp"

#include <array>

template class causeway::nn::language_model<causeway::nn::gpt_family>;
template class causeway::nn::language_model<causeway::nn::gpt_family, causeway::cuda::backend>;

using namespace causeway;
using namespace causeway_test::mixed_case;

TEST_CASE("cuda backend: a peer on a device and one on the CPU are equal to the bit after each round", "[cuda][fast]") {
  std::array<outcome, 2> got;
  support::run_cluster(2, [&](std::uint32_t peer, environment env) {
    got[peer] =
        peer == 0 ? train_there(peer, std::move(env), causeway_test::engine_on_host(), optim::nesterov{}, compress::none{})
                  : train_here<optim::nesterov, compress::none>(peer, std::move(env));
  });
  check_equal(got[0], got[1]);
  CHECK(got[0].rounds[0] != got[0].rounds[1]);
  CHECK(got[0].losses.back() < got[0].losses.front());
}
