// SPDX-License-Identifier: Apache-2.0
#include <causeway/axis/outer.hpp>

#include <causeway/optim/basis_rotation.hpp>
#include <causeway/optim/muon.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/optim/snoo.hpp>

#include <utility>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;

TEST_CASE("outer: any optimizer with a rate; copies have options but no state", "[axis][fast]") {
  thread_pool pool{1};
  axis::outer<> nesterov{0.5F, optim::nesterov{{.momentum = 0.8F}}};
  nesterov.reset(1);
  std::vector<float> shared{1.0F}, mean{2.0F};
  nesterov.step(pool, shared, mean, {});
  CHECK(shared[0] == Approx(1.0F - 0.5F * 1.8F * 2.0F));
  axis::outer<> copy = nesterov;
  copy.reset(1);
  shared = {1.0F};
  copy.step(pool, shared, mean, {});
  CHECK(shared[0] == Approx(1.0F - 0.5F * 1.8F * 2.0F));
  axis::outer<optim::sgd> replace{1.0F};
  replace.reset(1);
  shared = {5.0F};
  replace.step(pool, shared, mean, {});
  CHECK(shared[0] == 3.0F);
}

namespace {

/// Products of matrices, by somebody who is known.
struct named_gemm : kernels::packed_gemm {
  int label = 0;
};

}  // namespace

TEST_CASE("outer: a copy has what its optimizer was made with besides options", "[axis][fast]") {
  const auto copied = [](auto optimizer) { return axis::outer{1.0F, std::move(optimizer)}; };
  named_gemm ours;
  ours.label = 7;
  const auto muon = copied(optim::muon<named_gemm>{{.momentum = 0.5F}, ours});
  const auto of_muon = muon;
  CHECK(of_muon.optimizer().gemm().label == 7);
  CHECK(of_muon.optimizer().options().momentum == 0.5F);
  const auto rotation = copied(optim::basis_rotation<named_gemm>{{.period = 3}, ours});
  const auto of_rotation = rotation;
  CHECK(of_rotation.optimizer().gemm().label == 7);
  CHECK(of_rotation.optimizer().options().period == 3);
  const auto snoo = copied(optim::snoo<optim::muon<named_gemm>>{{.local_steps = 4}, optim::muon<named_gemm>{{}, ours}});
  const auto of_snoo = snoo;
  CHECK(of_snoo.optimizer().inner().gemm().label == 7);
  CHECK(of_snoo.optimizer().options().local_steps == 4);
}

TEST_CASE("outer: gossip Nesterov pulls toward the group", "[axis][fast]") {
  thread_pool pool{1};
  axis::gossip_nesterov outer{{.alpha = 0.5F, .beta = 0.7F, .gamma = 0.8F}};
  outer.reset(1);
  std::vector<float> shared{1.0F}, mean{-2.0F};  // progress of +2
  const std::vector<float> others{3.0F};
  outer.step(pool, shared, mean, others);
  const float v = 0.7F * 2.0F + 0.8F * 2.0F;
  CHECK(shared[0] == Approx(1.0F + v));
  outer.step(pool, shared, mean, others);
  CHECK(shared[0] == Approx(1.0F + v + 0.5F * v + 0.7F * 2.0F + 0.8F * (3.0F - 1.0F - v)));
}
