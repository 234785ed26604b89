// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_SITES_HPP
#define CAUSEWAY_TESTS_SUPPORT_SITES_HPP

// A run whose peers are sites, and the same run whose peers are processes with as many micro-batches as a site has members.

#include <causeway/collective/site.hpp>
#include <causeway/optim/adamw.hpp>
#include <causeway/parallel/data_parallel.hpp>
#include <causeway/train/site_model.hpp>
#include <causeway/train/trainer.hpp>

#include <cstdint>
#include <memory>
#include <utility>

#include "support/blocky.hpp"

namespace support {

inline causeway::trainer_options site_options() {
  causeway::trainer_options options;
  options.learning_rate = causeway::optim::constant{0.05F};
  return options;
}

/// What the first member of a site has.
template <class Policy>
auto site_trainer(causeway::environment env, Policy policy, std::shared_ptr<causeway::collective::site> site,
                  std::int64_t micro_batches = 1) {
  return causeway::make_trainer(causeway::site_model<test_model>{blocky{}, std::move(site)}, std::move(env), site_options(),
                                std::move(policy), causeway::optim::adamw{},
                                causeway::parallel::data_parallel{{.micro_batches = micro_batches}});
}

template <class Policy>
auto alone_trainer(causeway::environment env, Policy policy, std::int64_t members) {
  return causeway::make_trainer(test_model{blocky{}}, std::move(env), site_options(), std::move(policy),
                                causeway::optim::adamw{},
                                causeway::parallel::data_parallel{{.micro_batches = members, .added_apart = true}});
}

}  // namespace support

#endif  // CAUSEWAY_TESTS_SUPPORT_SITES_HPP
