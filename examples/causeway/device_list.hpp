// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_DEVICE_LIST_HPP
#define CAUSEWAY_EXAMPLES_DEVICE_LIST_HPP

// The devices that `causeway plan` may use, from a text file, and the links between them, from a link table. The format is
// in docs/reference/planners.md.

#include <causeway/core/result.hpp>
#include <causeway/plan/link_matrix.hpp>
#include <causeway/plan/pipeline_plan.hpp>
#include <causeway/sim/link_table.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace app {

/// Devices by number; each row of a file with a count gives as many.
struct device_list {
  std::vector<std::string> names;    ///< "a100.0", "a100.1", ...; the row's name alone where the count is 1
  std::vector<std::string> regions;  ///< of the link table
  std::vector<causeway::plan::compute_device> devices;
};

/// Reads CSV with the first line "name,region,tflop_s,memory_gb[,count]"; errc::bad_text names the line. `name` is for
/// messages.
causeway::result<device_list> parse_devices(std::string_view text, const std::string& name);

/// The links between the devices; errc::not_found names a region, or a pair, that the table lacks.
causeway::result<causeway::plan::link_matrix> links_between(const device_list& all, const causeway::sim::link_table& table);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_DEVICE_LIST_HPP
