"""TODO"""
async def run(world, plan):
    return
