// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SERVING_IMPL_BLOCK_PASSAGE_IPP
#define CAUSEWAY_PARALLEL_SERVING_IMPL_BLOCK_PASSAGE_IPP

#include <causeway/parallel/serving/block_passage.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL block_passage::block_passage(std::int64_t layers, shared_bytes x)
    : layers_{layers}, goal_{layers}, x_{std::move(x)} {
  CAUSEWAY_EXPECT(layers > 0);
}

CAUSEWAY_DECL void block_passage::turn_back(shared_bytes dy) {
  CAUSEWAY_EXPECT(arrived() && !backward_);
  backward_ = true;
  dy_ = std::move(dy);
}

CAUSEWAY_DECL auto block_passage::next(const stage::span_chain& chain) -> question {
  CAUSEWAY_EXPECT(!arrived());
  if (at_ < goal_) {
    CAUSEWAY_EXPECT(!chain.empty() && chain.front().blocks.first == at_ && chain.back().blocks.last == goal_);
    if (!backward_ || chain.size() > 1) return {chain.front(), false, x_, {}};
    pass(chain.front(), {});
  }
  const hop& last = hops_.back();
  return {last.where, true, last.x, dy_};
}

CAUSEWAY_DECL void block_passage::took_output(const stage::span_hop& asked, shared_bytes y) {
  CAUSEWAY_EXPECT(asked.blocks.first == at_ && asked.blocks.last <= goal_);
  pass(asked, std::move(y));
}

CAUSEWAY_DECL void block_passage::took_gradient(shared_bytes dx) {
  CAUSEWAY_EXPECT(backward_ && at_ == goal_ && !hops_.empty());
  at_ = goal_ = hops_.back().where.blocks.first;
  hops_.pop_back();
  dy_ = std::move(dx);
}

CAUSEWAY_DECL void block_passage::lost_gradient() {
  CAUSEWAY_EXPECT(backward_ && at_ == goal_ && !hops_.empty());
  at_ = hops_.back().where.blocks.first;
  x_ = std::move(hops_.back().x);
  hops_.pop_back();
}

CAUSEWAY_DECL void block_passage::pass(const stage::span_hop& where, shared_bytes y) {
  hops_.push_back({where, std::move(x_)});
  x_ = std::move(y);
  at_ = where.blocks.last;
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_SERVING_IMPL_BLOCK_PASSAGE_IPP
