// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_PROMETHEUS_HPP
#define CAUSEWAY_EXAMPLES_PROMETHEUS_HPP

// A run as Prometheus reads it: text, version 0.0.4.

#include <string>

#include "run_records.hpp"

namespace app {

std::string to_prometheus(const run_records& run);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_PROMETHEUS_HPP
