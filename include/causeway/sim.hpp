// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_HPP
#define CAUSEWAY_SIM_HPP

// To run a whole cluster on virtual time, with faults, from a seed.
//
// Written by tools/check_tree.py --fix-umbrella. What needs a third-party library comes last and only where that library is
// at hand; only headers like this one may include others of ours inside #if.

#include <causeway/sim/connection.hpp>
#include <causeway/sim/dialer.hpp>
#include <causeway/sim/disk.hpp>
#include <causeway/sim/disk_file.hpp>
#include <causeway/sim/disk_tree.hpp>
#include <causeway/sim/fabric.hpp>
#include <causeway/sim/fault_apply.hpp>
#include <causeway/sim/fault_plan.hpp>
#include <causeway/sim/fault_profile.hpp>
#include <causeway/sim/fiber.hpp>
#include <causeway/sim/host_clock.hpp>
#include <causeway/sim/link_table.hpp>
#include <causeway/sim/links.hpp>
#include <causeway/sim/mailbox.hpp>
#include <causeway/sim/network.hpp>
#include <causeway/sim/options.hpp>
#include <causeway/sim/process.hpp>
#include <causeway/sim/scheduler.hpp>
#include <causeway/sim/transit.hpp>
#include <causeway/sim/transport.hpp>
#include <causeway/sim/world.hpp>

#endif  // CAUSEWAY_SIM_HPP
